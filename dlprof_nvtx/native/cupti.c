/* Records CUDA activity through CUPTI, in buffers that CUPTI fills and a thread of it delivers.

   The CUDA driver loads the library that CUDA_INJECTION64_PATH names when a program initializes
   CUDA. CUPTI is the one that the program has loaded; else the one of DLPROF_COLLECT_CUPTI. */

#define _GNU_SOURCE
#include "abi.h"
#include "collector.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUPTI_VARIABLE "DLPROF_COLLECT_CUPTI"
#define RANGE_VARIABLE "DLPROF_COLLECT_RANGE" /* collect between cudaProfilerStart and -Stop */
#define BUFFER_BYTES (4u << 20)
#define MOST_POOLED 16
#define FLUSH_MS 1000
#define MOST_CALLBACKS 4096
#define STAGED 2048
#define CACHED 1024

typedef void (*callback)(void *, int, uint32_t, const void *);
typedef void (*request)(uint8_t **, size_t *, size_t *);
typedef void (*completion)(void *, uint32_t, uint8_t *, size_t, size_t);

/* Name, arguments, and whether the collector needs it. */
#define FUNCTIONS(X)                                                                               \
    X(GetVersion, (uint32_t *), 1)                                                                 \
    X(GetResultString, (int, const char **), 1)                                                    \
    X(Subscribe, (void **, callback, void *), 1)                                                   \
    X(EnableCallback, (uint32_t, void *, int, uint32_t), 1)                                        \
    X(GetCallbackName, (int, uint32_t, const char **), 1)                                          \
    X(SetThreadIdType, (int), 1)                                                                   \
    X(ActivityRegisterCallbacks, (request, completion), 1)                                         \
    X(ActivityRegisterTimestampCallback, (uint64_t (*)(void)), 1)                                  \
    X(ActivityEnable, (int), 1)                                                                    \
    X(ActivityDisable, (int), 1)                                                                   \
    X(ActivityFlushAll, (uint32_t), 1)                                                             \
    X(ActivityFlushPeriod, (uint32_t), 1)                                                          \
    X(ActivityGetNextRecord, (uint8_t *, size_t, uint8_t **), 1)                                   \
    X(ActivityGetNumDroppedRecords, (void *, uint32_t, size_t *), 1)                               \
    X(GetGraphNodeId, (void *, uint64_t *), 0)                                                     \
    X(ActivityEnableDriverApi, (uint32_t, uint8_t), 0)                                             \
    X(ActivityEnableRuntimeApi, (uint32_t, uint8_t), 0)

#define DECLARE(name, arguments, needed) int (*name) arguments;
static struct {
    FUNCTIONS(DECLARE)
} cupti;

static const int KINDS[] = {KIND_CONCURRENT_KERNEL, KIND_MEMCPY, KIND_MEMCPY_PEER, KIND_MEMSET,
                            KIND_SYNCHRONIZATION,   KIND_CUDA_EVENT, KIND_OVERHEAD};

static int has_cuda, is_active, is_subscribed, is_described, has_range_begun;
static uint32_t version;
static uint64_t dropped;
static void *subscriber;
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t parse_lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *pool[MOST_POOLED];
static int pooled;

uint32_t cupti_version(void) { return version; }
uint64_t cupti_dropped(void) { return dropped; }
int cupti_watches_range(void) { return !has_range_begun && getenv(RANGE_VARIABLE); }

/* Texts by number: the names of kernels and API calls. */

struct name {
    char *text;
    uint32_t hash;
};
static struct name *names; /* names[id - 1] */
static uint32_t name_count, name_room, *slots, slot_count;
static struct {
    const char *address;
    uint32_t id;
} cache[CACHED];

static uint32_t hash_of(const char *text)
{
    uint32_t hash = 2166136261u;
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * 16777619u;
    return hash;
}

static int grow_names(void)
{
    uint32_t room = name_room ? 2 * name_room : 1024, at;
    struct name *more = realloc(names, room * sizeof *names);
    uint32_t *wider = calloc(2 * (size_t)room, sizeof *slots);
    if (more)
        names = more;
    if (!more || !wider) {
        free(wider);
        return 0;
    }
    free(slots);
    slots = wider;
    slot_count = 2 * room;
    name_room = room;
    for (at = 0; at < name_count; at++) {
        uint32_t slot = names[at].hash & (slot_count - 1);
        while (slots[slot])
            slot = (slot + 1) & (slot_count - 1);
        slots[slot] = at + 1;
    }
    return 1;
}

static void write_name(uint32_t id, const char *text)
{
    size_t length = strlen(text);
    char *chunk = malloc(sizeof id + length);
    if (!chunk)
        return;
    memcpy(chunk, &id, sizeof id);
    memcpy(chunk + sizeof id, text, length);
    collector_write(CHUNK_STRING, 0, chunk, sizeof id + length);
    free(chunk);
}

/* The number of a text, 0 for none; the caller holds `parse_lock`. */
static uint32_t name_of(const char *text)
{
    uint32_t hash, slot, *cached;
    size_t place = ((uintptr_t)text >> 3) % CACHED;
    if (!text)
        return 0;
    /* The same address may hold another text later, when a module was unloaded. */
    cached = &cache[place].id;
    if (cache[place].address == text && !strcmp(names[*cached - 1].text, text))
        return *cached;
    if (name_count == name_room && !grow_names())
        return 0;
    hash = hash_of(text);
    slot = hash & (slot_count - 1);
    while (slots[slot]) {
        struct name *found = &names[slots[slot] - 1];
        if (found->hash == hash && !strcmp(found->text, text))
            break;
        slot = (slot + 1) & (slot_count - 1);
    }
    if (!slots[slot]) {
        char *kept = strdup(text);
        if (!kept)
            return 0;
        names[name_count].text = kept;
        names[name_count].hash = hash;
        slots[slot] = ++name_count;
        write_name(name_count, text);
    }
    cache[place].address = text;
    *cached = slots[slot];
    return slots[slot];
}

/* Which calls are recorded: those of the runtime but queries, and those of the driver that do
   work, move memory or wait. As many calls again would only be nested in them. */

static const char *const QUERIES[] = {
    "cudaGet",           "cudaPeek",          "cudaDeviceGet",       "cudaStreamGet",
    "cudaStreamIsCapt",  "cudaFuncGet",       "cudaFuncSet",         "cudaOccupancy",
    "cudaPointerGet",    "cudaDriverGet",     "cudaRuntimeGet",      "cudaSetDevice",
    "cudaThreadExchang", "cudaKernelSetAttr", "cudaMemPoolGet",      "cudaMemPoolSet",
    "cudaEventElapsed",  "cudaMemGetInfo",    "cudaGraphKernelNode", "cudaGraphNodeGet",
    "cudaLibraryGet",    "cudaKernelGet",     "cudaDeviceCanAccess", "cudaIpcGet",
};
static const char *const WORK[] = {
    "cuLaunch",        "cuMemcpy",          "cuMemset",          "cuGraphLaunch",
    "cuGraphInst",     "cuStreamSync",      "cuStreamWait",      "cuEventRecord",
    "cuEventSync",     "cuCtxSync",         "cuMemAlloc",        "cuMemFree",
    "cuModuleLoadD",   "cuModuleLoadFat",   "cuLibraryLoad",     "cuMemHostAlloc",
    "cuMemCreate",     "cuMemMap",          "cuMemUnmap",        "cuMemRelease",
    "cuMemPrefetch",   "cuStreamBeginCapt", "cuStreamEndCapt",   "cuStreamWriteValue",
    "cuModuleLoad_",
};

static int begins_with_any(const char *name, const char *const *words, size_t count)
{
    size_t at;
    for (at = 0; at < count; at++)
        if (!strncmp(name, words[at], strlen(words[at])))
            return 1;
    return 0;
}

static int is_recorded(int domain, const char *name)
{
    if (domain == DOMAIN_RUNTIME_API)
        return !begins_with_any(name, QUERIES, sizeof QUERIES / sizeof *QUERIES);
    return begins_with_any(name, WORK, sizeof WORK / sizeof *WORK) || !strcmp(name, "cuModuleLoad");
}

struct call {
    uint32_t name;
    uint8_t is_known, is_recorded;
};
static struct call calls[2][MOST_CALLBACKS];

static const struct call *call_of(int is_driver, uint32_t cbid)
{
    int domain = is_driver ? DOMAIN_DRIVER_API : DOMAIN_RUNTIME_API;
    const char *name = NULL;
    struct call *call;
    if (cbid >= MOST_CALLBACKS)
        return NULL;
    call = &calls[is_driver][cbid];
    if (!call->is_known) {
        call->is_known = 1;
        if (!cupti.GetCallbackName(domain, cbid, &name) && name && is_recorded(domain, name)) {
            call->is_recorded = 1;
            call->name = name_of(name);
        }
    }
    return call;
}

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
        collector_write(stage->type, stage->record_bytes, stage->records,
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
    const struct call *call = call_of(is_driver, u32(from + API_CBID));
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
    record->name = name_of(name);
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
    record->event_sync = version >= SYNC_IDS_CUPTI ? u64(from + SYNC_EVENT_SYNC) : UINT64_MAX;
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
    record->event_sync = version >= SYNC_IDS_CUPTI ? u64(from + EVENT_EVENT_SYNC) : UINT64_MAX;
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

static void on_request(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
    *buffer = NULL;
    pthread_mutex_lock(&pool_lock);
    if (pooled)
        *buffer = pool[--pooled];
    pthread_mutex_unlock(&pool_lock);
    if (!*buffer && posix_memalign((void **)buffer, 8, BUFFER_BYTES))
        *buffer = NULL;
    *bytes = *buffer ? BUFFER_BYTES : 0;
    *most_records = 0;
}

static void on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid)
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
    pthread_mutex_lock(&pool_lock);
    if (buffer && pooled < MOST_POOLED)
        pool[pooled++] = buffer, buffer = NULL;
    pthread_mutex_unlock(&pool_lock);
    free(buffer);
}

static void record_graph_node(uint32_t cbid, const uint8_t *data)
{
    struct graph_node_record record;
    const uint8_t *graph;
    void *node, *original;
    memset(&record, 0, sizeof record);
    memcpy(&graph, data + RESOURCE_DESCRIPTOR, sizeof graph);
    if (!graph || !cupti.GetGraphNodeId)
        return;
    memcpy(&node, graph + GRAPH_NODE, sizeof node);
    memcpy(&original, graph + GRAPH_ORIGINAL_NODE, sizeof original);
    if (cupti.GetGraphNodeId(node, &record.node))
        return;
    if (cbid == CALLBACK_GRAPH_NODE_CLONED)
        cupti.GetGraphNodeId(original, &record.original);
    record.time = collector_now();
    record.thread = collector_thread();
    collector_write(CHUNK_GRAPH_NODE, sizeof record, &record, sizeof record);
}

static void disable(void)
{
    size_t at;
    for (at = 0; at < sizeof KINDS / sizeof *KINDS; at++)
        cupti.ActivityDisable(KINDS[at]);
    cupti.ActivityDisable(KIND_RUNTIME);
    cupti.ActivityDisable(KIND_DRIVER);
}

static void on_callback(void *unused, int domain, uint32_t cbid, const void *data)
{
    (void)unused;
    if (domain == DOMAIN_RESOURCE && collector_is_on)
        record_graph_node(cbid, data);
    else if (domain == DOMAIN_DRIVER_API && u32(data) == SITE_EXIT) {
        if (cbid == CALLBACK_PROFILER_START) {
            has_range_begun = 1;
            collector_begin();
        } else if (has_range_begun && collector_is_on) {
            disable();
            collector_stop();
        }
    }
}

static int failed(const char *what, int result)
{
    char text[512];
    const char *name = NULL;
    if (!result)
        return 0;
    if (cupti.GetResultString)
        cupti.GetResultString(result, &name);
    snprintf(text, sizeof text, "%s: %s", what, name ? name : "unknown error");
    collector_note(result == ERROR_OTHER_SUBSCRIBER ? "other_subscriber" : "cupti_error", text);
    return 1;
}

static int find_loaded(struct dl_phdr_info *info, size_t size, void *path)
{
    (void)size;
    if (!info->dlpi_name || !strstr(info->dlpi_name, "/libcupti.so"))
        return 0;
    snprintf(path, 4096, "%s", info->dlpi_name);
    return 1;
}

static int load(void)
{
    char path[4096] = "";
    const char *given = getenv(CUPTI_VARIABLE);
    void *library = NULL;
    if (version)
        return version >= OLDEST_CUPTI;
    dl_iterate_phdr(find_loaded, path);
    if (!*path && given)
        snprintf(path, sizeof path, "%s", given);
    if (*path)
        library = dlopen(path, RTLD_NOW);
    if (!library) {
        collector_note("no_cupti", *path ? dlerror() : "");
        return 0;
    }
    collector_note("cupti", path);
#define LOOK_UP(name, arguments, needed)                                                           \
    *(void **)&cupti.name = dlsym(library, "cupti" #name);                                         \
    if (needed && !cupti.name) {                                                                   \
        collector_note("missing_function", "cupti" #name);                                         \
        return 0;                                                                                  \
    }
    FUNCTIONS(LOOK_UP)
    if (failed("cuptiGetVersion", cupti.GetVersion(&version)))
        return 0;
    snprintf(path, sizeof path, "%u", version);
    collector_note("cupti_version", path);
    if (version < OLDEST_CUPTI)
        collector_note("old_cupti", path);
    return version >= OLDEST_CUPTI;
}

static int subscribe(void)
{
    if (is_subscribed)
        return 1;
    if (!load() || failed("cuptiSubscribe", cupti.Subscribe(&subscriber, on_callback, NULL)))
        return 0;
    is_subscribed = 1;
    return 1;
}

/* Enable the calls to record; CUPTI before CUDA 12.6 can only record all, which are then left out
   when they are read. */
static void enable_calls(void)
{
    uint32_t cbid;
    failed("runtime API", cupti.ActivityEnable(KIND_RUNTIME));
    if (!cupti.ActivityEnableDriverApi || !cupti.ActivityEnableRuntimeApi) {
        failed("driver API", cupti.ActivityEnable(KIND_DRIVER));
        return;
    }
    pthread_mutex_lock(&parse_lock);
    for (cbid = 1; cbid < MOST_CALLBACKS; cbid++) {
        const char *name = NULL;
        if (!cupti.GetCallbackName(DOMAIN_RUNTIME_API, cbid, &name) && name
            && !is_recorded(DOMAIN_RUNTIME_API, name))
            cupti.ActivityEnableRuntimeApi(cbid, 0);
        name = NULL;
        if (!cupti.GetCallbackName(DOMAIN_DRIVER_API, cbid, &name) && name
            && is_recorded(DOMAIN_DRIVER_API, name))
            cupti.ActivityEnableDriverApi(cbid, 1);
    }
    pthread_mutex_unlock(&parse_lock);
}

void cupti_begin(void)
{
    size_t at;
    /* The thread that initializes CUDA must not wait here for another one: that may wait for CUDA. */
    if (!has_cuda || __atomic_exchange_n(&is_active, 1, __ATOMIC_SEQ_CST))
        return;
    if (!subscribe()) {
        is_active = 0;
        return;
    }
    failed("thread ids", cupti.SetThreadIdType(THREAD_IDS_OF_SYSTEM));
    failed("time stamps", cupti.ActivityRegisterTimestampCallback(collector_now));
    if (failed("callbacks", cupti.ActivityRegisterCallbacks(on_request, on_complete)))
        return;
    for (at = 0; at < sizeof KINDS / sizeof *KINDS; at++)
        failed("activity", cupti.ActivityEnable(KINDS[at]));
    enable_calls();
    cupti.EnableCallback(1, subscriber, DOMAIN_RESOURCE, CALLBACK_GRAPH_NODE_CREATED);
    cupti.EnableCallback(1, subscriber, DOMAIN_RESOURCE, CALLBACK_GRAPH_NODE_CLONED);
    failed("flush period", cupti.ActivityFlushPeriod(FLUSH_MS));
}

void cupti_end(void)
{
    if (!is_active)
        return;
    is_active = 0;
    failed("flush", cupti.ActivityFlushAll(FLUSH_FORCED));
    disable();
    cupti_describe();
}

/* Write the devices, once CUDA is initialized; their properties come from the driver. */
void cupti_describe(void)
{
    static const int ATTRIBUTES[] = {16, 13, 75, 76, 36, 37, 38};
    int (*count)(int *), (*get)(int *, int), (*name)(char *, int, int), (*uuid)(uint8_t *, int);
    int (*total)(size_t *, int), (*attribute)(int *, int, int), (*driver)(int *);
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    char text[1 << 14];
    size_t used = 0, at;
    int devices = 0, ordinal, release = 0;
    if (!has_cuda || is_described || !library)
        return;
    *(void **)&count = dlsym(library, "cuDeviceGetCount");
    *(void **)&get = dlsym(library, "cuDeviceGet");
    *(void **)&name = dlsym(library, "cuDeviceGetName");
    *(void **)&uuid = dlsym(library, "cuDeviceGetUuid");
    *(void **)&total = dlsym(library, "cuDeviceTotalMem_v2");
    *(void **)&attribute = dlsym(library, "cuDeviceGetAttribute");
    *(void **)&driver = dlsym(library, "cuDriverGetVersion");
    if (!count || !get || !name || !uuid || !total || !attribute || !driver || count(&devices))
        return;
    is_described = 1;
    driver(&release);
    for (ordinal = 0; ordinal < devices && used < sizeof text - 512; ordinal++) {
        char label[128] = "";
        uint8_t id[16] = {0};
        size_t bytes = 0;
        int device = 0;
        if (get(&device, ordinal))
            continue;
        name(label, sizeof label - 1, device);
        uuid(id, device);
        total(&bytes, device);
        used += (size_t)sprintf(text + used, "%d\t", ordinal);
        for (at = 0; at < sizeof id; at++)
            used += (size_t)sprintf(text + used, "%02x", id[at]);
        used += (size_t)sprintf(text + used, "\t%s\t%zu\t%d", label, bytes, release);
        for (at = 0; at < sizeof ATTRIBUTES / sizeof *ATTRIBUTES; at++) {
            int value = 0;
            attribute(&value, ATTRIBUTES[at], device);
            used += (size_t)sprintf(text + used, "\t%d", value);
        }
        text[used++] = '\n';
    }
    if (used)
        collector_write(CHUNK_DEVICES, 0, text, used);
}

void cupti_forget(void)
{
    pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    size_t at;
    pool_lock = parse_lock = unlocked;
    has_cuda = is_active = is_described = has_range_begun = 0;
    name_count = 0;
    if (slots)
        memset(slots, 0, slot_count * sizeof *slots);
    memset(cache, 0, sizeof cache);
    memset(calls, 0, sizeof calls);
    for (at = 0; at < sizeof STAGES / sizeof *STAGES; at++)
        STAGES[at]->count = 0;
}

/* The CUDA driver calls this while a program initializes CUDA. */
__attribute__((visibility("default"))) int InitializeInjection(void)
{
    collector_init();
    collector_begin_with_cuda();
    /* Once more: what was registered last runs first, and CUPTI must still be there then. */
    atexit(collector_end);
    has_cuda = 1;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (collector_is_on)
        cupti_begin();
    else if (cupti_watches_range() && subscribe()) {
        cupti.EnableCallback(1, subscriber, DOMAIN_DRIVER_API, CALLBACK_PROFILER_START);
        cupti.EnableCallback(1, subscriber, DOMAIN_DRIVER_API, CALLBACK_PROFILER_STOP);
    }
    return 1;
}
