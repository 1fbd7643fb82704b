/* Records CUDA activity through CUPTI, in buffers that CUPTI fills and a thread of it delivers.

   The CUDA driver loads the library that CUDA_INJECTION64_PATH names when a program initializes
   CUDA. CUPTI is the one that the program has loaded; else the one of DLPROF_COLLECT_CUPTI. */

#define _GNU_SOURCE
#include "abi.h"
#include "activity.h"
#include "collector.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUPTI_VARIABLE "DLPROF_COLLECT_CUPTI"
#define RANGE_VARIABLE "DLPROF_COLLECT_RANGE" /* collect between cudaProfilerStart and -Stop */
#define FLUSH_MS 1000
#define MOST_CALLBACKS 4096

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
static void *subscriber;

uint32_t cupti_version(void) { return version; }
uint64_t cupti_dropped(void) { return activity_dropped; }
int cupti_watches_range(void) { return !has_range_begun && getenv(RANGE_VARIABLE); }

int cupti_callback_name(int domain, uint32_t cbid, const char **name)
{
    return cupti.GetCallbackName(domain, cbid, name);
}
int cupti_next_record(uint8_t *buffer, size_t valid, uint8_t **record)
{
    return cupti.ActivityGetNextRecord(buffer, valid, record);
}
int cupti_lost_records(void *context, uint32_t stream, size_t *count)
{
    return cupti.ActivityGetNumDroppedRecords(context, stream, count);
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
    else if (domain == DOMAIN_DRIVER_API && *(const int *)data == SITE_EXIT) {
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
   when they are read. Calls of the driver that are enabled one by one are not recorded where the
   collection begins after CUDA was initialized; so all are enabled, and those not wanted disabled. */
static void enable_calls(int kind, int domain, int (*enable_one)(uint32_t, uint8_t))
{
    uint32_t cbid;
    failed(kind == KIND_RUNTIME ? "runtime API" : "driver API", cupti.ActivityEnable(kind));
    for (cbid = 1; enable_one && cbid < MOST_CALLBACKS; cbid++) {
        const char *name = NULL;
        if (!cupti.GetCallbackName(domain, cbid, &name) && name && !is_recorded(domain, name))
            enable_one(cbid, 0);
    }
}

static void enable_driver_calls(void)
{
    enable_calls(KIND_DRIVER, DOMAIN_DRIVER_API, cupti.ActivityEnableDriverApi);
}

static void enable_all_calls(void)
{
    enable_calls(KIND_RUNTIME, DOMAIN_RUNTIME_API, cupti.ActivityEnableRuntimeApi);
    enable_driver_calls();
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
    if (failed("callbacks", cupti.ActivityRegisterCallbacks(activity_request, activity_complete)))
        return;
    for (at = 0; at < sizeof KINDS / sizeof *KINDS; at++)
        failed("activity", cupti.ActivityEnable(KINDS[at]));
    enable_all_calls();
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
    has_cuda = is_active = is_described = has_range_begun = 0;
    activity_forget();
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
