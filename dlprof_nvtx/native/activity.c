#define _GNU_SOURCE
#include "activity.h"
#include "abi.h"
#include "library.h"
#include "names.h"
#include "output.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_BYTES (4u << 20)
#define MOST_POOLED 16
#define STAGED 2048

static _Atomic uint64_t dropped;
static _Atomic int outstanding; /* buffers that CUPTI has */
static void (*_Atomic at_exit)(void);
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t parse_lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *pool[MOST_POOLED];
static int pooled;

/* Staged records: one array by type, written when it is full or the buffer has been read. */

struct stage {
    uint32_t type, record_bytes, count;
    char *records;
};
#define STAGE(type, record)                                                                        \
    {                                                                                              \
        type, sizeof(struct record), 0, NULL                                                       \
    }
static struct stage api_stage = STAGE(CHUNK_API, api_record);
static struct stage kernel_stage = STAGE(CHUNK_KERNEL, kernel_record);
static struct stage copy_stage = STAGE(CHUNK_COPY, memory_record);
static struct stage set_stage = STAGE(CHUNK_SET, memory_record);
static struct stage sync_stage = STAGE(CHUNK_SYNC, sync_record);
static struct stage event_stage = STAGE(CHUNK_EVENT, event_record);
static struct stage overhead_stage = STAGE(CHUNK_OVERHEAD, overhead_record);
static struct stage *const STAGES[] = {&api_stage,  &kernel_stage, &copy_stage,    &set_stage,
                                       &sync_stage, &event_stage,  &overhead_stage};

static void write_stage(struct stage *stage)
{
    if (stage->count)
        output_write(stage->type, stage->record_bytes, stage->records,
                        (uint64_t)stage->count * stage->record_bytes);
    stage->count = 0;
}

/* Room for one record, all zero; NULL without memory. */
static void *staged(struct stage *stage)
{
    char *record;
    if (!stage->records && !(stage->records = malloc((size_t)STAGED * stage->record_bytes)))
        return NULL;
    if (stage->count == STAGED)
        write_stage(stage);
    record = stage->records + (size_t)stage->count++ * stage->record_bytes;
    return memset(record, 0, stage->record_bytes);
}

static uint16_t u16(const uint8_t *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return value;
}
static uint32_t u32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}
static uint64_t u64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static void read_api(const uint8_t *from, int is_driver)
{
    const struct call *call = names_call(is_driver, u32(from + API_CBID));
    struct api_record *record;
    if (!call || !call->is_recorded || !(record = staged(&api_stage)))
        return;
    record->start = u64(from + API_START);
    record->end = u64(from + API_END);
    record->thread = u32(from + API_THREAD);
    record->correlation = u32(from + API_CORRELATION);
    record->result = (int32_t)u32(from + API_RESULT);
    record->name = call->name;
    record->is_driver = (uint32_t)is_driver;
}

static void read_kernel(const uint8_t *from)
{
    const char *name;
    struct kernel_record *record = staged(&kernel_stage);
    if (!record)
        return;
    memcpy(&name, from + KERNEL_NAME, sizeof name);
    record->start = u64(from + KERNEL_START);
    record->end = u64(from + KERNEL_END);
    record->graph_node = u64(from + KERNEL_GRAPH_NODE);
    record->device = u32(from + KERNEL_DEVICE);
    record->context = u32(from + KERNEL_CONTEXT);
    record->stream = u32(from + KERNEL_STREAM);
    record->correlation = u32(from + KERNEL_CORRELATION);
    record->name = names_id(name);
    record->graph = u32(from + KERNEL_GRAPH);
    memcpy(record->grid, from + KERNEL_GRID, sizeof record->grid);
    memcpy(record->block, from + KERNEL_BLOCK, sizeof record->block);
    record->static_bytes = (int32_t)u32(from + KERNEL_STATIC);
    record->dynamic_bytes = (int32_t)u32(from + KERNEL_DYNAMIC);
    record->registers = u16(from + KERNEL_REGISTERS);
    record->launch_type = from[KERNEL_LAUNCH_TYPE];
}

static void read_memory(const uint8_t *from, int kind)
{
    int is_peer = kind == KIND_MEMCPY_PEER, is_set = kind == KIND_MEMSET;
    struct memory_record *record = staged(is_set ? &set_stage : &copy_stage);
    if (!record)
        return;
    record->start = u64(from + MEMORY_START);
    record->end = u64(from + MEMORY_END);
    record->bytes = u64(from + MEMORY_BYTES);
    record->graph_node = u64(from + (is_peer ? PEER_GRAPH_NODE : MEMORY_GRAPH_NODE));
    record->device = u32(from + MEMORY_DEVICE);
    record->context = u32(from + MEMORY_CONTEXT);
    record->stream = u32(from + MEMORY_STREAM);
    record->correlation = u32(from + (is_peer ? PEER_CORRELATION : MEMORY_CORRELATION));
    record->graph = u32(from + (is_peer ? PEER_GRAPH : MEMORY_GRAPH));
    record->copy_kind = is_set ? 0 : is_peer ? COPY_PEER : from[COPY_KIND];
    record->source = is_set ? 0 : from[COPY_SOURCE];
    record->target = is_set ? (uint8_t)u16(from + SET_MEMORY_KIND) : from[COPY_TARGET];
    record->is_async = is_set ? 0 : from[COPY_FLAGS] & FLAG_ASYNC;
}

static void read_sync(const uint8_t *from)
{
    struct sync_record *record = staged(&sync_stage);
    if (!record)
        return;
    record->start = u64(from + SYNC_START);
    record->end = u64(from + SYNC_END);
    record->type = u32(from + SYNC_TYPE);
    record->correlation = u32(from + SYNC_CORRELATION);
    record->context = u32(from + SYNC_CONTEXT);
    record->stream = u32(from + SYNC_STREAM);
    record->event = u32(from + SYNC_EVENT);
    record->event_sync = library_version() >= SYNC_IDS_CUPTI ? u64(from + SYNC_EVENT_SYNC) : UINT64_MAX;
}

static void read_event(const uint8_t *from)
{
    struct event_record *record = staged(&event_stage);
    if (!record)
        return;
    record->correlation = u32(from + EVENT_CORRELATION);
    record->context = u32(from + EVENT_CONTEXT);
    record->stream = u32(from + EVENT_STREAM);
    record->event = u32(from + EVENT_ID);
    record->event_sync = library_version() >= SYNC_IDS_CUPTI ? u64(from + EVENT_EVENT_SYNC) : UINT64_MAX;
}

static void read_overhead(const uint8_t *from)
{
    struct overhead_record *record = staged(&overhead_stage);
    if (!record)
        return;
    record->start = u64(from + OVERHEAD_START);
    record->end = u64(from + OVERHEAD_END);
    record->kind = u32(from + OVERHEAD_KIND);
    if (u32(from + OVERHEAD_OBJECT_KIND) == OBJECT_THREAD)
        record->thread = u32(from + OVERHEAD_THREAD);
}

static void read_record(const uint8_t *record)
{
    switch (u32(record)) {
    case KIND_RUNTIME: read_api(record, 0); break;
    case KIND_DRIVER: read_api(record, 1); break;
    case KIND_KERNEL:
    case KIND_CONCURRENT_KERNEL: read_kernel(record); break;
    case KIND_MEMCPY:
    case KIND_MEMCPY_PEER:
    case KIND_MEMSET: read_memory(record, (int)u32(record)); break;
    case KIND_SYNCHRONIZATION: read_sync(record); break;
    case KIND_CUDA_EVENT: read_event(record); break;
    case KIND_OVERHEAD: read_overhead(record); break;
    default: break;
    }
}

uint64_t activity_dropped(void) { return dropped; }
int activity_outstanding(void) { return outstanding; }
void activity_begin(void (*handler)(void)) { at_exit = handler; }

void activity_request(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
    void (*handler)(void) = atomic_exchange(&at_exit, NULL);
    if (handler)
        atexit(handler);
    *buffer = NULL;
    pthread_mutex_lock(&pool_lock);
    if (pooled)
        *buffer = pool[--pooled];
    pthread_mutex_unlock(&pool_lock);
    if (!*buffer && posix_memalign((void **)buffer, 8, BUFFER_BYTES))
        *buffer = NULL;
    *bytes = *buffer ? BUFFER_BYTES : 0;
    *most_records = 0;
    outstanding += *buffer != NULL;
}

void activity_complete(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid)
{
    uint8_t *record = NULL;
    size_t lost = 0, at;
    (void)bytes;
    pthread_mutex_lock(&parse_lock);
    while (valid && !cupti.ActivityGetNextRecord(buffer, valid, &record))
        read_record(record);
    for (at = 0; at < sizeof STAGES / sizeof *STAGES; at++)
        write_stage(STAGES[at]);
    if (!cupti.ActivityGetNumDroppedRecords(context, stream, &lost))
        dropped += lost;
    pthread_mutex_unlock(&parse_lock);
    outstanding -= buffer != NULL;
    pthread_mutex_lock(&pool_lock);
    if (buffer && pooled < MOST_POOLED)
        pool[pooled++] = buffer, buffer = NULL;
    pthread_mutex_unlock(&pool_lock);
    free(buffer);
}

void activity_repeat(void)
{
    pthread_mutex_lock(&parse_lock);
    dropped = 0;
    names_repeat();
    pthread_mutex_unlock(&parse_lock);
}

void activity_forget(void)
{
    pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    size_t at;
    pool_lock = parse_lock = unlocked;
    pooled = 0;
    outstanding = 0;
    dropped = 0;
    at_exit = NULL;
    for (at = 0; at < sizeof STAGES / sizeof *STAGES; at++)
        STAGES[at]->count = 0;
    names_forget();
}
