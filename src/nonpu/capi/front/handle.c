/* Handles: records in pools, found by number; and the objects that are nothing but a record. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front.h"

/* In front of every record. `next` is a slot number + 1. */
typedef struct { uint32_t generation, index, next, owned; } header;
enum { INDEX_SHIFT = 24, TAG_SHIFT = 48, FIELD = 0xffffff, CHUNKS = NONPU_CHUNKS };

static char *tensor_chunks[CHUNKS], *scalar_chunks[CHUNKS], *executor_chunks[CHUNKS], *stream_chunks[CHUNKS];
#define POOL(number, record, slots, table) \
    { .tag = 0x6e70u + number, .record_bytes = record, .chunk_slots = slots, .chunks = table, .lock = PTHREAD_MUTEX_INITIALIZER }
nonpu_pool nonpu_tensors = POOL(1, sizeof(nonpu_tensor), 1024, tensor_chunks);
nonpu_pool nonpu_scalars = POOL(2, sizeof(nonpu_scalar), 1024, scalar_chunks);
nonpu_pool nonpu_executors = POOL(3, sizeof(nonpu_executor), 64, executor_chunks);   /* large: few in turn stay in the cache */
nonpu_pool nonpu_streams = POOL(4, NONPU_STREAM_BYTES, 16, stream_chunks);

static header *slot(nonpu_pool *pool, uint32_t index)
{
    size_t bytes = sizeof(header) + ((pool->record_bytes + 15) & ~(size_t)15);
    return (header *)(pool->chunks[index / pool->chunk_slots] + index % pool->chunk_slots * bytes);
}

static void append(nonpu_pool *pool, header *h)
{
    h->next = 0;
    if (pool->first)
        slot(pool, pool->last - 1)->next = h->index + 1;
    else
        pool->first = h->index + 1;
    pool->last = h->index + 1;
}

/* Chunks are never freed or moved: a lookup needs no lock, whatever handle it is given. */
static int grow(nonpu_pool *pool)
{
    uint32_t chunk = pool->capacity / pool->chunk_slots, start = pool->capacity;
    size_t bytes = sizeof(header) + ((pool->record_bytes + 15) & ~(size_t)15);
    if (chunk == CHUNKS || !(pool->chunks[chunk] = calloc(pool->chunk_slots, bytes)))
        return -1;
    for (uint32_t i = start; i < start + pool->chunk_slots; i++) {
        slot(pool, i)->index = i;
        append(pool, slot(pool, i));
    }
    __atomic_store_n(&pool->capacity, start + pool->chunk_slots, __ATOMIC_RELEASE);
    return 0;
}

void *nonpu_take(nonpu_pool *pool)
{
    header *h = NULL;
    pthread_mutex_lock(&pool->lock);
    if (pool->first || !grow(pool)) {
        h = slot(pool, pool->first - 1);
        pool->first = h->next;
    }
    pthread_mutex_unlock(&pool->lock);
    return h ? h + 1 : NULL;
}

void nonpu_recycle(nonpu_pool *pool, void *record)
{
    pthread_mutex_lock(&pool->lock);
    append(pool, (header *)record - 1);
    pthread_mutex_unlock(&pool->lock);
}

uintptr_t nonpu_handle(nonpu_pool *pool, void *record)
{
    header *h = (header *)record - 1;
    uint32_t generation = __atomic_load_n(&h->generation, __ATOMIC_ACQUIRE);
    return generation & 1 ? pool->tag << TAG_SHIFT | (uintptr_t)h->index << INDEX_SHIFT | (generation & FIELD) : 0;
}

void nonpu_set_owned(void *record, uint32_t owned) { __atomic_store_n(&((header *)record - 1)->owned, owned, __ATOMIC_RELAXED); }

int nonpu_is_owned(const void *record) { return __atomic_load_n(&((const header *)record - 1)->owned, __ATOMIC_RELAXED) != 0; }

uint32_t nonpu_index(const void *record) { return ((const header *)record - 1)->index; }

uintptr_t nonpu_publish(nonpu_pool *pool, void *record)
{
    ((header *)record - 1)->owned = 0;
    __atomic_add_fetch(&((header *)record - 1)->generation, 1, __ATOMIC_RELEASE);
    return nonpu_handle(pool, record);
}

/* The slot that a handle of this kind names, whatever its generation; NULL for other numbers. */
static header *named(nonpu_pool *pool, uintptr_t handle)
{
    uint32_t index = handle >> INDEX_SHIFT & FIELD;
    if (handle >> TAG_SHIFT != pool->tag || index >= __atomic_load_n(&pool->capacity, __ATOMIC_ACQUIRE))
        return NULL;
    return slot(pool, index);
}

void *nonpu_find(nonpu_pool *pool, uintptr_t handle)
{
    header *h = named(pool, handle);
    return h && handle & 1 && (__atomic_load_n(&h->generation, __ATOMIC_ACQUIRE) & FIELD) == (handle & FIELD) ? h + 1 : NULL;
}

void *nonpu_claim(nonpu_pool *pool, uintptr_t handle)
{
    if (!nonpu_find(pool, handle))
        return NULL;
    header *h = named(pool, handle);
    uint32_t generation = __atomic_load_n(&h->generation, __ATOMIC_ACQUIRE);
    if ((generation & FIELD) != (handle & FIELD)
        || !__atomic_compare_exchange_n(&h->generation, &generation, generation + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return NULL;
    NONPU_NOTE(NONPU_ENDED, NULL, handle, pool->tag, 0, 0);
    return h + 1;
}

void *nonpu_slot(nonpu_pool *pool, uint32_t index)
{
    return index < __atomic_load_n(&pool->capacity, __ATOMIC_ACQUIRE) ? slot(pool, index) + 1 : NULL;
}

nonpu_text nonpu_describe(nonpu_pool *pool, uintptr_t handle)
{
    nonpu_text shown;
    NONPU_CHECKED(nonpu_note_described(handle));
    const char *form = !handle ? "null" : !named(pool, handle) || !(handle & 1) ? "%#llx, which is none"
                     : pool == &nonpu_executors ? "one that is consumed or destroyed" : "one that is destroyed";
    snprintf(shown.text, sizeof shown.text, form, (unsigned long long)handle);
    return shown;
}

void nonpu_fork_handles(int step)
{
    nonpu_pool *pools[] = { &nonpu_tensors, &nonpu_scalars, &nonpu_executors, &nonpu_streams };
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
        nonpu_fork_lock(&pools[i]->lock, step);
    for (size_t i = 0; i < NONPU_BLOCKS; i++)
        nonpu_fork_lock(&nonpu_blocks[i].lock, step);
}

/* ---- tensors ---- */

enum { RANK = sizeof((nonpu_tensor *)0)->dims / sizeof(int64_t) };

/* Why a tensor cannot have these attributes: the status of aclInitTensor, 0 if it can. */
static int judge_attributes(const char *api, const int64_t *viewDims, uint64_t viewDimsNum, const int64_t *storageDims, uint64_t storageDimsNum)
{
    if ((!viewDims && viewDimsNum) || (!storageDims && storageDimsNum))
        return nonpu_fail(ACLNN_ERR_PARAM_NULLPTR, api, viewDims || !viewDimsNum ? "storageDims" : "viewDims",
                          "a pointer to as many values as counted", "null");
    if (viewDimsNum > RANK || storageDimsNum > RANK)
        return nonpu_fail(ACLNN_ERR_PARAM_INVALID, api, viewDimsNum > RANK ? "viewDimsNum" : "storageDimsNum", "at most 25",
                          nonpu_number((int64_t)(viewDimsNum > RANK ? viewDimsNum : storageDimsNum)).text);
    return 0;
}

static void fill(nonpu_tensor *t, const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t *stride, int64_t offset,
                 aclFormat format, const int64_t *storageDims, uint64_t storageDimsNum, void *tensorData)
{
    t->dtype = dataType;
    t->format = format;
    t->rank = (int32_t)viewDimsNum;
    t->storage_rank = storageDims ? (int32_t)storageDimsNum : -1;
    t->offset = offset;
    t->data = (uintptr_t)tensorData;
    uint64_t step = 1;              /* unsigned: may wrap for shapes that phase one refuses */
    for (int i = (int)viewDimsNum - 1; i >= 0; i--) {
        t->dims[i] = viewDims[i];
        t->strides[i] = stride ? stride[i] : (int64_t)step;
        step *= (uint64_t)viewDims[i];
    }
    for (uint64_t i = 0; i < storageDimsNum; i++)
        t->storage[i] = storageDims[i];
}

aclTensor *aclCreateTensor(const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t *stride,
                           int64_t offset, aclFormat format, const int64_t *storageDims, uint64_t storageDimsNum,
                           void *tensorData)
{
    if (judge_attributes("aclCreateTensor", viewDims, viewDimsNum, storageDims, storageDimsNum))
        return NULL;
    nonpu_tensor *t = nonpu_take(&nonpu_tensors);
    if (!t) {
        nonpu_fail(0, "aclCreateTensor", "the number of live tensors", "within the memory of this machine", "no memory");
        return NULL;
    }
    fill(t, viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum, tensorData);
    uintptr_t handle = nonpu_publish(&nonpu_tensors, t);
    NONPU_NOTE(NONPU_MADE, "aclCreateTensor", handle, nonpu_tensors.tag, 0, 0);
    return (aclTensor *)handle;
}

aclnnStatus aclInitTensor(aclTensor *tensor, const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t *stride,
                          int64_t offset, aclFormat format, const int64_t *storageDims, uint64_t storageDimsNum, void *tensorData)
{
    nonpu_tensor *t = nonpu_find(&nonpu_tensors, (uintptr_t)tensor);
    if (!t)
        return nonpu_fail(tensor ? ACLNN_ERR_PARAM_INVALID : ACLNN_ERR_PARAM_NULLPTR, "aclInitTensor", "tensor", "a live tensor",
                          nonpu_describe(&nonpu_tensors, (uintptr_t)tensor).text);
    int status = judge_attributes("aclInitTensor", viewDims, viewDimsNum, storageDims, storageDimsNum);
    if (!status)
        fill(t, viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum, tensorData);
    return status;
}

/* Shared by the destroy functions: null is fine, anything that is not alive is an error. */
static aclnnStatus destroy(nonpu_pool *pool, uintptr_t handle, const char *api, const char *what, const char *expected)
{
    void *record = handle ? nonpu_find(pool, handle) : NULL;
    if (record && nonpu_is_owned(record))
        return nonpu_fail(ACLNN_ERR_PARAM_INVALID, api, what, "one that no list owns", "one that is destroyed with its list");
    record = record ? nonpu_claim(pool, handle) : NULL;
    if (record)
        nonpu_recycle(pool, record);
    else if (handle)
        return nonpu_fail(ACLNN_ERR_PARAM_INVALID, api, what, expected, nonpu_describe(pool, handle).text);
    return ACLNN_SUCCESS;
}

aclnnStatus aclDestroyTensor(const aclTensor *tensor)
{
    return destroy(&nonpu_tensors, (uintptr_t)tensor, "aclDestroyTensor", "tensor", "a live tensor");
}

/* ---- scalars ---- */

aclScalar *aclCreateScalar(void *value, aclDataType dataType)
{
    static const uint8_t bytes[] = NONPU_SCALAR_BYTES;      /* generated: by data type, 0 where no scalar is possible */
    size_t size = (size_t)dataType < sizeof bytes ? bytes[dataType] : 0;
    nonpu_scalar *s = value && size ? nonpu_take(&nonpu_scalars) : NULL;
    if (!s) {
        char actual[32];
        snprintf(actual, sizeof actual, !value ? "null" : !size ? "data type %d" : "no memory", (int)dataType);
        nonpu_fail(0, "aclCreateScalar", value ? "dataType" : "value",
                   value ? "a type that scalars can have" : "a pointer to a value", actual);
        return NULL;
    }
    s->dtype = dataType;
    memset(s->value, 0, sizeof s->value);
    memcpy(s->value, value, size);
    uintptr_t handle = nonpu_publish(&nonpu_scalars, s);
    NONPU_NOTE(NONPU_MADE, "aclCreateScalar", handle, nonpu_scalars.tag, 0, 0);
    return (aclScalar *)handle;
}

aclnnStatus aclDestroyScalar(const aclScalar *scalar)
{
    return destroy(&nonpu_scalars, (uintptr_t)scalar, "aclDestroyScalar", "scalar", "a live scalar");
}

/* ---- arguments of phase one ---- */

static nonpu_argument argument(nonpu_pool *pool, uintptr_t handle, int32_t kind)
{
    void *record = handle ? nonpu_find(pool, handle) : NULL;
    return (nonpu_argument){ kind, record ? 1 : handle ? 2 : 0, record, (int64_t)handle, 0 };
}

nonpu_argument nonpu_tensor_argument(const aclTensor *tensor) { return argument(&nonpu_tensors, (uintptr_t)tensor, 1); }
nonpu_argument nonpu_scalar_argument(const aclScalar *scalar) { return argument(&nonpu_scalars, (uintptr_t)scalar, 2); }
