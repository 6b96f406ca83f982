/* Records and functions that C, the compiled kernels and Python share.
   This file is read by the C compiler and, as it stands, by cffi: no preprocessor lines. */

/* One operand of a launch; strides in bytes. A move of 0 means that tiles are contiguous and used in place. */
typedef struct {
    uintptr_t data, move;
    int64_t item;
    int64_t row_stride, column_stride;
    int64_t outer_strides[6];
} nonpu_operand;

/* One run of a driver over tiles; operand 0 is the output. */
typedef struct nonpu_launch {
    uintptr_t driver;               /* void (*)(const nonpu_launch *, int64_t first_tile, int64_t last_tile) */
    uintptr_t kernel;
    int64_t operands, tiles;
    int64_t rows, columns;
    int64_t tile_rows, tile_columns;
    int64_t outer_rank, outer_shape[6];
    double parameters[4];
    int64_t cost;                   /* estimated nanoseconds of the whole launch on one thread */
    int64_t part;                   /* elements of a tile that are computed and moved out at a time; 0: all */
    nonpu_operand operand[6];
    int64_t far;                    /* how many threads have more of the operands than caches near them hold, and so use parts;
                                       0: all do, for a result that is moved past the caches */
} nonpu_launch;

/* What phase two does: `launches` (0, 1 or 2) runs. With temporary > 0 `main` writes to a block of that many bytes,
   which `tail` copies to the output: both receive its address when they run. */
typedef struct {
    nonpu_launch main, tail;
    int64_t temporary, launches;
} nonpu_plan;

/* What aclCreateTensor was told. Without strides, those of a row-major tensor are filled in. */
typedef struct {
    int32_t dtype, format, rank;
    int32_t storage_rank;           /* -1: no storage shape was given */
    int64_t offset;
    uintptr_t data;
    int64_t dims[25], strides[25], storage[25];
} nonpu_tensor;

typedef struct {
    int32_t dtype;
    uint8_t value[16];
} nonpu_scalar;

/* One argument of phase one, as the judge sees it. */
typedef struct {
    int32_t kind;                   /* 1 tensor, 2 scalar, 3 flag, 4 integer, 5 real */
    int32_t state;                  /* 0 null, 1 live, 2 not a live object of this kind */
    const void *record;             /* nonpu_tensor or nonpu_scalar */
    int64_t integer;                /* flag or integer; the address that was passed, for a tensor or scalar */
    double real;
} nonpu_argument;

/* A launch that was judged and planned for arrays of certain layouts: for each operand, where the launch starts and which
   bytes it reaches, counted from the array's address, and whether its layout is the output's. */
typedef struct {
    nonpu_launch launch;
    int64_t start[6], low[6], high[6];
    int32_t same_layout[6];
    int32_t apart;                  /* no input may be the output: such a call has a plan of its own */
    int32_t any_product;            /* 0: judged for the product that NONPU_PRODUCT had then */
    char product[64];
} nonpu_ready;

/* Executors. A status other than 0 comes with a recorded text. Handles are numbers, never addresses. */
uintptr_t nonpu_executor_create(const nonpu_plan *plan);
int32_t nonpu_executor_set_repeatable(uintptr_t executor);
int32_t nonpu_executor_destroy(uintptr_t executor);
int32_t nonpu_execute(uintptr_t executor, uintptr_t stream);   /* stream 0: the default stream of the process */

/* Run now, in the calling thread and, where it pays, in the threads of the pool. Not 0: this thread's stack is too small
   for a kernel, and no other could be had. */
int32_t nonpu_run(const nonpu_launch *launch);
int32_t nonpu_run_plan(const nonpu_plan *plan);
/* 0: done. 1: the product has changed, inputs overlap the output partly or as the plan does not allow for, or it could
   not run; nothing was done. */
int32_t nonpu_run_ready(const nonpu_ready *ready, uintptr_t output, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,
                        uintptr_t e);
void nonpu_set_threads(int32_t count);                         /* 0: as the environment says */
int32_t nonpu_get_threads(void);

uintptr_t nonpu_stream_create(void);
int32_t nonpu_stream_destroy(uintptr_t stream);                /* not 0: it was none, or its work goes on */
int32_t nonpu_stream_synchronize(uintptr_t stream);            /* 0: the default stream of the process */
int32_t nonpu_stream_idle(uintptr_t stream);                   /* 1: everything queued has run */
void nonpu_synchronize_all(void);
void nonpu_end_queues(void);                                   /* at the end of the process: finish, but run no more callbacks */

/* The block of aclrtMalloc or aclrtMallocHost that `address` lies in: 1 and its extent, or 0. `capacity`, which
   may be null, counts the slack behind the request as well. A block given back lately has 0 bytes. */
int32_t nonpu_find_block(uintptr_t address, uintptr_t *base, uint64_t *bytes, uint64_t *capacity);

/* Whether memory that is no such block can be used: 0 as far as one can tell, 1 it is not mapped, 2 its first or last byte
   cannot be read, 3 one of them cannot be written. Changes nothing. */
int32_t nonpu_probe(uintptr_t address, uint64_t bytes, int32_t written);

/* Every call of phase one is judged anew from now on. */
void nonpu_forget_calls(void);

/* Texts for aclGetRecentErrMsg: of the calling thread, or one list for the process. */
void nonpu_record_error(const char *text);
const char *nonpu_take_error(void);                            /* as aclGetRecentErrMsg: NULL if there is none */
void nonpu_set_error_scope(int32_t process);
void nonpu_note_status(int32_t status);                        /* for aclrtGetLastError, if it is a runtime-level code */

/* An exception of Python that is not ours to answer, Ctrl-C above all: it is raised in the caller's Python, once the C
   function that this thread is in has returned. */
void nonpu_interrupt(uintptr_t exception);

/* The value of an environment variable as C sees it: the host may have set it after Python had started. Or NULL. */
const char *nonpu_environment(const char *name);
/* Instructions of this processor, as it says itself: bit 0 what x86-64-v2 needs, bit 1 v3, bit 2 v4. */
int32_t nonpu_processor(void);

/* NONPU_CHECK=1: what the program did, in order; `a` to `d` depend on the kind. */
enum {
    NONPU_FAILED = 1,               /* text; object that it is about, or 0 */
    NONPU_STATUS,                   /* status of this thread's last failure */
    NONPU_PROCESS,                  /* aclInit, aclFinalize, aclnnInit, aclnnFinalize: 0 to 3 */
    NONPU_DEVICE,                   /* calls of aclrtSetDevice that are not undone */
    NONPU_MADE,                     /* object; tag; context of a stream */
    NONPU_OWNED,                    /* object that is destroyed with its list */
    NONPU_ENDED,                    /* object; tag */
    NONPU_ALLOCATED,                /* address; bytes; whether of aclrtMallocHost */
    NONPU_GIVEN_BACK,               /* address; whether to aclrtFreeHost; whether it was a live block */
    NONPU_PLANNED,                  /* executor; operator; size of the workspace */
    NONPU_ARGUMENT,                 /* executor; object; position */
    NONPU_REPEATABLE,               /* executor */
    NONPU_PHASE_TWO,                /* executor; workspace; its size */
    NONPU_QUEUED,                   /* stream */
    NONPU_ACCESS,                   /* stream, or 0 for at once; first byte; end; whether it writes */
    NONPU_COPIED,                   /* destination; source; kind */
    NONPU_SYNCHRONIZED,             /* stream, or 0 for all */
    NONPU_RECORDED,                 /* event; stream */
    NONPU_WAITED,                   /* event; stream */
    NONPU_EVENT_REACHED,            /* event */
    NONPU_UNDERRUN,                 /* block; first and last changed byte, counted back from its start */
    NONPU_OVERRUN,                  /* block; first changed byte and end, counted from its end */
    NONPU_WRITTEN_LATE,             /* block that was given back; first changed byte; end */
    NONPU_RELEASED                  /* block that was given back; its addresses may be anybody's from now on */
};
typedef struct {
    int32_t kind, thread;
    uint64_t number;
    const char *api;
    uintptr_t caller, outer;        /* return addresses in the program, of the call and of its function; 0: none there */
    const char *script;             /* of the call, if it came from Python and Python said where; or null */
    uint64_t a, b, c, d;
    char *text;
} nonpu_fact;
int64_t nonpu_take_facts(const nonpu_fact **list);             /* since the last time; valid until the next time */
int32_t nonpu_is_checking(void);
void nonpu_note_process(int32_t which);
void nonpu_note_script(const char *place);                     /* where this thread calls from, until it says null; must stay */
void nonpu_check_memory(void);                                 /* note what is wrong with it now */
void nonpu_close_check(int32_t misuses);                       /* the report is made */
enum { NONPU_MISUSE = 99 };                                    /* exit status of a program that would have ended with 0 */

const char *nonpu_build(void);                                 /* identity of this build of the library */
const char *nonpu_state(void);                                 /* "started", "not started" or why it failed */
