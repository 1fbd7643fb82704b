#define _GNU_SOURCE
#include "cupti.h"
#include "abi.h"
#include "activity.h"
#include "library.h"
#include "names.h"
#include "output.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RANGE_VARIABLE "DLPROF_COLLECT_RANGE" /* collect between cudaProfilerStart and -Stop */
#define FLUSH_MS 1000
#define MOST_CALLBACKS 4096
#define MS 1000000ull
#define MOST_DRAIN_MS 1000 /* The program must not stand still for 2 s. */
#define MOST_WAIT_MS 500

static const int KINDS[] = {KIND_CONCURRENT_KERNEL, KIND_MEMCPY, KIND_MEMCPY_PEER, KIND_MEMSET,
                            KIND_SYNCHRONIZATION,   KIND_CUDA_EVENT, KIND_OVERHEAD};

/* One thread at a time changes it, without a lock: the thread that initializes CUDA must not wait
   for another one, which may wait for CUDA. */
enum { DETACHED, CHANGING, ATTACHED };
static _Atomic int state;
static _Atomic int has_cuda, has_failed, has_range_begun, is_described;
static _Atomic int callbacks; /* threads inside a callback */
static _Atomic uint32_t finalizer; /* thread whose next call of the driver detaches CUPTI */
static int is_subscribed;
static void *subscriber;
static void (*range_hook)(int is_start);

uint64_t cupti_dropped(void) { return activity_dropped(); }
int cupti_watches_range(void) { return !has_range_begun && getenv(RANGE_VARIABLE); }
int cupti_has_failed(void) { return atomic_exchange(&has_failed, 0); }
void cupti_init(void) { has_cuda = 1; }

void cupti_repeat(void)
{
    is_described = 0;
    activity_repeat();
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
    record.time = output_now();
    record.thread = output_thread();
    output_write(CHUNK_GRAPH_NODE, sizeof record, &record, sizeof record);
}

static void disable(void)
{
    size_t at;
    for (at = 0; at < sizeof KINDS / sizeof *KINDS; at++)
        cupti.ActivityDisable(KINDS[at]);
    cupti.ActivityDisable(KIND_RUNTIME);
    cupti.ActivityDisable(KIND_DRIVER);
}

static void watch_graphs(int on)
{
    cupti.EnableCallback(on, subscriber, DOMAIN_RESOURCE, CALLBACK_GRAPH_NODE_CREATED);
    cupti.EnableCallback(on, subscriber, DOMAIN_RESOURCE, CALLBACK_GRAPH_NODE_CLONED);
}

static void on_driver_call(uint32_t cbid)
{
    uint32_t own = output_thread();
    if (finalizer) {
        if (atomic_compare_exchange_strong(&finalizer, &own, 0))
            library_failed("cuptiFinalize", cupti.Finalize());
    } else if (cbid == CALLBACK_PROFILER_START) {
        has_range_begun = 1;
        range_hook(1);
    } else if (cbid == CALLBACK_PROFILER_STOP && has_range_begun && output_is_on) {
        disable();
        range_hook(0);
    }
}

static void on_callback(void *unused, int domain, uint32_t cbid, const void *data)
{
    (void)unused;
    callbacks++;
    if (domain == DOMAIN_RESOURCE && output_is_on && state == ATTACHED)
        record_graph_node(cbid, data);
    else if (domain == DOMAIN_DRIVER_API && *(const int *)data == SITE_EXIT)
        on_driver_call(cbid);
    callbacks--;
}

static int subscribe(void)
{
    int result;
    if (is_subscribed)
        return 1;
    if (!library_load())
        return 0;
    result = cupti.Subscribe(&subscriber, on_callback, NULL);
    /* As CUPTI before CUDA 12 calls it. */
    if (library_failed("cuptiSubscribe", result == ERROR_LIMIT ? ERROR_OTHER_SUBSCRIBER : result))
        return 0;
    is_subscribed = 1;
    return 1;
}

enum cupti_attached cupti_attach(void)
{
    int expected = DETACHED;
    if (!has_cuda || !atomic_compare_exchange_strong(&state, &expected, CHANGING))
        return CUPTI_NOTHING_TO_DO;
    if (subscribe())
        return CUPTI_ATTACHED;
    has_failed = 1;
    state = DETACHED;
    return CUPTI_FAILED;
}

/* Enable the calls to record; CUPTI before CUDA 12.6 can only record all, which are then left out
   when they are read. Calls of the driver that are enabled one by one are not recorded where the
   collection begins after CUDA was initialized; so all are enabled, and those not wanted disabled. */
static void enable_calls(int kind, int domain, int (*enable_one)(uint32_t, uint8_t))
{
    uint32_t cbid;
    library_failed(kind == KIND_RUNTIME ? "runtime API" : "driver API", cupti.ActivityEnable(kind));
    for (cbid = 1; enable_one && cbid < MOST_CALLBACKS; cbid++) {
        const char *name = NULL;
        if (!cupti.GetCallbackName(domain, cbid, &name) && name && !names_is_recorded(domain, name))
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

void cupti_record(void (*at_exit)(void))
{
    size_t at;
    activity_begin(at_exit);
    library_failed("thread ids", cupti.SetThreadIdType(THREAD_IDS_OF_SYSTEM));
    library_failed("time stamps", cupti.ActivityRegisterTimestampCallback(output_now));
    if (library_failed("callbacks",
                       cupti.ActivityRegisterCallbacks(activity_request, activity_complete))) {
        has_failed = 1;
        cupti_release();
        return;
    }
    for (at = 0; at < sizeof KINDS / sizeof *KINDS; at++)
        library_failed("activity", cupti.ActivityEnable(KINDS[at]));
    enable_all_calls();
    watch_graphs(1);
    library_failed("flush period", cupti.ActivityFlushPeriod(FLUSH_MS));
    /* Now, not before: handlers run in the reverse order of their registration, and CUPTI, which
       registers its own when it is loaded or enabled, must still be alive in ours. */
    atexit(at_exit);
    state = ATTACHED;
}

static void sleep_ms(void)
{
    struct timespec time = {0, MS};
    nanosleep(&time, NULL);
}

/* Wait for the records of work that is still on its way, by asking CUPTI alone: a call of CUDA that
   waits would break the capture of a graph. CUPTI returns the buffers whose records are all there. */
static void drain(void)
{
    uint64_t limit = output_now() + MOST_DRAIN_MS * MS;
    for (;;) {
        if (library_failed("flush", cupti.ActivityFlushAll(0)))
            return;
        if (!activity_outstanding() || output_now() >= limit)
            return;
        sleep_ms();
    }
}

int cupti_stop(enum cupti_detach how)
{
    uint64_t limit = output_now() + MOST_WAIT_MS * MS;
    int expected = ATTACHED;
    while (!atomic_compare_exchange_strong(&state, &expected, CHANGING)) {
        /* Another thread initializes CUDA, and enables CUPTI just now. */
        if (expected != CHANGING || output_now() >= limit)
            return 0;
        expected = ATTACHED;
        sleep_ms();
    }
    if (how == CUPTI_DETACH) {
        drain();
        watch_graphs(0);
        disable();
    }
    library_failed("flush", cupti.ActivityFlushAll(FLUSH_FORCED));
    if (how == CUPTI_AT_EXIT)
        disable();
    cupti_describe();
    return 1;
}

/* Detach CUPTI at the exit of a call of the driver by this thread: there NVIDIA recommends to call
   cuptiFinalize, else the caller would have to see to it that no thread is inside CUDA or CUPTI.
   (User's guide, "Dynamic Attach and Detach", and the sample cupti_finalize; PyTorch's Kineto,
   which waits for the next call of the program, does the same.) */
static int finalize(void)
{
    int (*driver_version)(int *), (*device_count)(int *), number = 0, waits = MOST_WAIT_MS;
    /* CUPTI before CUDA 12.6 crashes at a CUDA graph after it was detached and attached again:
       https://github.com/pytorch/pytorch/pull/150957. It stays loaded there, with nothing enabled. */
    if (!cupti.Finalize || library_version() < FINALIZE_CUPTI)
        return 0;
    /* No callback of ours may use CUPTI while it goes. */
    while (callbacks && waits--)
        sleep_ms();
    *(void **)&driver_version = library_driver_function("cuDriverGetVersion");
    *(void **)&device_count = library_driver_function("cuDeviceGetCount");
    cupti.EnableCallback(1, subscriber, DOMAIN_DRIVER_API, CALLBACK_DRIVER_VERSION);
    cupti.EnableCallback(1, subscriber, DOMAIN_DRIVER_API, CALLBACK_DEVICE_COUNT);
    finalizer = output_thread();
    if (driver_version)
        driver_version(&number);
    if (finalizer && device_count)
        device_count(&number);
    if (!finalizer)
        return 1;
    finalizer = 0;
    return 0;
}

void cupti_release(void)
{
    if (is_subscribed && !finalize()) {
        output_note("not_finalized", "CUPTI stays in the process, with nothing enabled");
        library_failed("cuptiUnsubscribe", cupti.Unsubscribe(subscriber));
    }
    subscriber = NULL;
    is_subscribed = 0;
    state = DETACHED;
}

void cupti_watch_range(void (*on_range)(int is_start))
{
    range_hook = on_range;
    if (!subscribe()) {
        has_failed = 1;
        return;
    }
    cupti.EnableCallback(1, subscriber, DOMAIN_DRIVER_API, CALLBACK_PROFILER_START);
    cupti.EnableCallback(1, subscriber, DOMAIN_DRIVER_API, CALLBACK_PROFILER_STOP);
}

/* The properties of the devices come from the driver. */
void cupti_describe(void)
{
    static const int ATTRIBUTES[] = {16, 13, 75, 76, 36, 37, 38};
    int (*count)(int *), (*get)(int *, int), (*name)(char *, int, int), (*uuid)(uint8_t *, int);
    int (*total)(size_t *, int), (*attribute)(int *, int, int), (*driver)(int *);
    char text[1 << 14];
    size_t used = 0, at;
    int devices = 0, ordinal, release = 0;
    if (!has_cuda || is_described)
        return;
    *(void **)&count = library_driver_function("cuDeviceGetCount");
    *(void **)&get = library_driver_function("cuDeviceGet");
    *(void **)&name = library_driver_function("cuDeviceGetName");
    *(void **)&uuid = library_driver_function("cuDeviceGetUuid");
    *(void **)&total = library_driver_function("cuDeviceTotalMem_v2");
    *(void **)&attribute = library_driver_function("cuDeviceGetAttribute");
    *(void **)&driver = library_driver_function("cuDriverGetVersion");
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
        output_write(CHUNK_DEVICES, 0, text, used);
}

void cupti_forget(void)
{
    state = DETACHED;
    has_cuda = has_failed = is_described = has_range_begun = 0;
    callbacks = 0;
    finalizer = 0;
    is_subscribed = 0;
    subscriber = NULL;
    activity_forget();
}
