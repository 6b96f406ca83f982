/* Cases in C: each runs in a process of its own, by name, and prints what it finds wrong. */
#ifndef CASE_H
#define CASE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

#define EXPECT(condition) \
    do { \
        if (!(condition)) { \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            failures++; \
        } \
    } while (0)

#define EXPECT_IS(value, expected) \
    do { \
        long long value_ = (long long)(value), expected_ = (long long)(expected); \
        if (value_ != expected_) { \
            printf("%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #value, value_, expected_); \
            failures++; \
        } \
    } while (0)

/* The newest recorded text must contain each of the words; reading it clears all texts. */
#define EXPECT_TEXT(...) \
    do { \
        const char *words_[] = { __VA_ARGS__ }, *text_ = aclGetRecentErrMsg(); \
        for (size_t i_ = 0; i_ < sizeof words_ / sizeof *words_; i_++) \
            if (!text_ || !strstr(text_, words_[i_])) { \
                printf("%s:%d: no \"%s\" in: %s\n", __FILE__, __LINE__, words_[i_], text_ ? text_ : "(no text)"); \
                failures++; \
            } \
    } while (0)

/* As often as usual, or less where ROUNDS says so: under a memory checker, say. */
static inline long rounds_of(long usual)
{
    const char *text = getenv("ROUNDS");
    long wanted = text ? atol(text) : usual;
    return wanted < usual ? wanted : usual;
}

#define CASE(name) static void name(void)
typedef struct { const char *name; void (*body)(void); } case_entry;
#define RUN(...) \
    int main(int argc, char **argv) \
    { \
        const case_entry cases_[] = { __VA_ARGS__ }; \
        for (size_t i_ = 0; i_ < sizeof cases_ / sizeof *cases_; i_++) { \
            if (argc < 2) \
                printf("%s\n", cases_[i_].name); \
            else if (!strcmp(argv[1], cases_[i_].name)) { \
                cases_[i_].body(); \
                return failures != 0; \
            } \
        } \
        return argc < 2 ? 0 : 2; \
    }
#define ENTRY(name) { #name, name }

#endif
