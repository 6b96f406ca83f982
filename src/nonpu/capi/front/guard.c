/* NONPU_CHECK=1: memory with guards before and behind each block, and poison in what was given back. */
#include <stdlib.h>
#include <string.h>

#include "front.h"

enum { PAGE = 4096, NEAR = 512, GUARD = 0xa7, POISON = 0xdb };
static const size_t MOST_KEPT = (size_t)64 << 20;

typedef struct guarded {
    struct guarded *next, **link;
    unsigned char *base;
    size_t bytes, capacity;
    int broken;                     /* reported already */
} guarded;

static guarded *blocks;             /* live, or given back while work may still use them */
static guarded *kept, **kept_end = &kept;
static size_t kept_bytes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The page before a block begins with the way back to what is known of it. */
static guarded **home(void *block) { return (guarded **)((unsigned char *)block - PAGE); }

void *nonpu_guarded(size_t bytes, size_t capacity)
{
    unsigned char *memory = capacity > SIZE_MAX / 2 ? NULL : aligned_alloc(PAGE, capacity + 2 * PAGE);
    guarded *g = memory ? malloc(sizeof *g) : NULL;
    if (!g) {
        free(memory);
        return NULL;
    }
    *g = (guarded){ .base = memory + PAGE, .bytes = bytes, .capacity = capacity };
    memset(memory, GUARD, PAGE);
    memset(g->base + bytes, GUARD, capacity - bytes + PAGE);
    *home(g->base) = g;
    pthread_mutex_lock(&lock);
    g->next = blocks;
    g->link = &blocks;
    if (blocks)
        blocks->link = &g->next;
    blocks = g;
    pthread_mutex_unlock(&lock);
    return g->base;
}

/* The first and the last byte of a range that differ from the value; 0 if none does. */
static int find_change(const unsigned char *range, size_t size, int value, size_t *first, size_t *last)
{
    size_t i = 0;
    while (i < size && range[i] == value)
        i++;
    if (i == size)
        return 0;
    *first = i;
    for (*last = size - 1; range[*last] == value;)
        --*last;
    return 1;
}

/* Note a border that somebody wrote to, once. `reach` bytes are looked at on each side. */
static void check(const char *api, guarded *g, size_t reach)
{
    size_t before = PAGE - sizeof(guarded *), behind = g->capacity - g->bytes + PAGE, first, last;
    before = before < reach ? before : reach;
    behind = behind < reach ? behind : reach;
    if (g->broken)
        return;
    if (find_change(g->base - before, before, GUARD, &first, &last))
        g->broken = 1, nonpu_note(NONPU_UNDERRUN, api, (uintptr_t)g->base, before - first, before - last, 0);
    if (find_change(g->base + g->bytes, behind, GUARD, &first, &last))
        g->broken = 1, nonpu_note(NONPU_OVERRUN, api, (uintptr_t)g->base, first, last + 1, 0);
}

void nonpu_check_guards(const char *api, const void *block)
{
    pthread_mutex_lock(&lock);
    if (block)
        check(api, *home((void *)block), SIZE_MAX);
    for (guarded *g = block ? NULL : blocks; g; g = g->next)
        check(api, g, NEAR);
    pthread_mutex_unlock(&lock);
}

static void check_poison(guarded *g)
{
    size_t first, last;
    if (find_change(g->base, g->bytes, POISON, &first, &last))
        nonpu_note(NONPU_WRITTEN_LATE, NULL, (uintptr_t)g->base, first, last + 1, 0);
}

/* Free what was kept longest, until what is left is within the limit. */
static void trim(size_t limit)
{
    for (guarded *g; kept_bytes > limit && (g = kept);) {
        check_poison(g);
        nonpu_note(NONPU_RELEASED, NULL, (uintptr_t)g->base, 0, 0, 0);
        kept_bytes -= g->bytes;
        kept = g->next;
        kept_end = kept ? kept_end : &kept;
        free(g->base - PAGE);
        free(g);
    }
}

void nonpu_release_guarded(void *block)
{
    pthread_mutex_lock(&lock);
    guarded *g = *home(block);
    if (!nonpu_checking) {          /* a forked child: the list is its parent's */
        pthread_mutex_unlock(&lock);
        free((unsigned char *)block - PAGE);
        return;
    }
    *g->link = g->next;
    if (g->next)
        g->next->link = g->link;
    memset(g->base, POISON, g->bytes);
    g->next = NULL;
    *kept_end = g;
    kept_end = &g->next;
    kept_bytes += g->bytes;
    trim(MOST_KEPT);
    pthread_mutex_unlock(&lock);
}

void nonpu_check_released(void)
{
    pthread_mutex_lock(&lock);
    for (guarded *g = kept; g; g = g->next)
        check_poison(g);
    pthread_mutex_unlock(&lock);
}

void nonpu_forget_guards(void)
{
    pthread_mutex_init(&lock, NULL);
    blocks = kept = NULL;
    kept_end = &kept;
}
