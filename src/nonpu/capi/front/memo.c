/* Calls of phase one that the judge has accepted: the same call again has the same plan. A call is all that the judge
   looks at: the operator, every field of every argument, the blocks that the tensors' addresses lie in, the product. */
#include <stdlib.h>
#include <string.h>

#include "front.h"

enum { SLOTS = 256, LONGEST = 256, PRODUCT_WORDS = 6 };

typedef struct {
    uint64_t hash;
    uint32_t words;
    nonpu_plan plan;
    uint64_t key[];
} entry;

static entry *entries[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void nonpu_fork_memo(int step) { nonpu_fork_lock(&lock, step); }

static void put(nonpu_call *call, const void *data, size_t words)
{
    if (call->words + words > LONGEST) {
        call->words = LONGEST + 1;      /* too long to be remembered */
        return;
    }
    memcpy(call->key + call->words, data, words * sizeof *call->key);
    call->words += (uint32_t)words;
}

static void put_number(nonpu_call *call, uint64_t number) { put(call, &number, 1); }

static void put_tensor(nonpu_call *call, const nonpu_tensor *t)
{
    uintptr_t base = 0;
    uint64_t bytes = 0;
    nonpu_find_block(t->data, &base, &bytes, NULL);
    uint64_t head[] = { (uint64_t)(uint32_t)t->dtype << 32 | (uint32_t)t->format, (uint64_t)(uint32_t)t->rank << 32 | (uint32_t)t->storage_rank,
                        (uint64_t)t->offset, t->data, base, bytes };
    put(call, head, sizeof head / sizeof *head);
    put(call, t->dims, (size_t)t->rank);
    put(call, t->strides, (size_t)t->rank);
    if (t->storage_rank > 0)
        put(call, t->storage, (size_t)t->storage_rank);
}

static void put_argument(nonpu_call *call, const nonpu_argument *argument)
{
    put_number(call, (uint64_t)(uint32_t)argument->kind << 32 | (uint32_t)argument->state);
    if (argument->kind == 1 && argument->state == 1)
        put_tensor(call, argument->record);
    else if (argument->kind == 2 && argument->state == 1) {
        const nonpu_scalar *s = argument->record;
        put_number(call, (uint32_t)s->dtype);
        put(call, s->value, sizeof s->value / sizeof *call->key);
    } else {
        put_number(call, (uint64_t)argument->integer);
        put(call, &argument->real, 1);
    }
}

static uint64_t hash_of(const nonpu_call *call)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < call->words; i++)
        hash = (hash ^ call->key[i]) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
    return hash;
}

static entry **slot(const nonpu_call *call) { return &entries[call->hash % SLOTS]; }

int nonpu_recall(nonpu_call *call, int32_t operator_index, int32_t count, const nonpu_argument *arguments, nonpu_plan *plan)
{
    char product[PRODUCT_WORDS * sizeof *call->key] = "";
    const char *name = getenv("NONPU_PRODUCT");
    call->words = 0;
    put_number(call, (uint64_t)(uint32_t)operator_index << 32 | (uint32_t)count);
    if (name && strlen(name) >= sizeof product)
        call->words = LONGEST + 1;
    else
        put(call, strcpy(product, name ? name : ""), PRODUCT_WORDS);
    for (int32_t i = 0; i < count && call->words <= LONGEST; i++)
        put_argument(call, &arguments[i]);
    if (call->words > LONGEST)
        return 0;
    call->hash = hash_of(call);
    pthread_mutex_lock(&lock);
    const entry *e = *slot(call);
    int known = e && e->hash == call->hash && e->words == call->words && !memcmp(e->key, call->key, call->words * sizeof *call->key);
    if (known)
        nonpu_copy_plan(plan, &e->plan);
    pthread_mutex_unlock(&lock);
    return known;
}

void nonpu_remember(const nonpu_call *call, const nonpu_plan *plan)
{
    if (call->words > LONGEST)
        return;
    entry *e = malloc(sizeof *e + call->words * sizeof *e->key);
    if (!e)
        return;
    e->hash = call->hash;
    e->words = call->words;
    nonpu_copy_plan(&e->plan, plan);
    memcpy(e->key, call->key, call->words * sizeof *e->key);
    pthread_mutex_lock(&lock);
    entry *old = *slot(call);
    *slot(call) = e;
    pthread_mutex_unlock(&lock);
    free(old);
}

void nonpu_forget_calls(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < SLOTS; i++) {
        free(entries[i]);
        entries[i] = NULL;
    }
    pthread_mutex_unlock(&lock);
}
