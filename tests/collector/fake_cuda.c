/* Plays CUDA, its CUPTI and a program that uses NVTX's headers, to test the collector without a GPU.

   Its records have their fields at the places of abi.h, which check_abi.c compares with CUPTI. */
#define _GNU_SOURCE
#include "abi.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef void (*callback)(void *, int, uint32_t, const void *);
static callback subscriber;
static void (*on_request)(uint8_t **, size_t *, size_t *);
static void (*on_complete)(void *, uint32_t, uint8_t *, size_t, size_t);
static uint64_t (*now)(void);
static uint8_t enabled[64], switched_off[8], *buffer;
static size_t room, used;
static uint32_t correlation;
static const struct {
    int kind;
    size_t bytes;
} SIZES[] = {{KIND_RUNTIME, 40},  {KIND_DRIVER, 40},    {KIND_CONCURRENT_KERNEL, 248},
             {KIND_MEMCPY, 112},  {KIND_MEMSET, 104},   {KIND_SYNCHRONIZATION, 56},
             {KIND_CUDA_EVENT, 80}, {KIND_OVERHEAD, 56}, {KIND_MEMCPY_PEER, 96}};

static size_t size_of(int kind)
{
    size_t at;
    for (at = 0; at < sizeof SIZES / sizeof *SIZES; at++)
        if (SIZES[at].kind == kind)
            return SIZES[at].bytes;
    abort();
}

static uint32_t fake_version(void)
{
    const char *given = getenv("FAKE_CUPTI_VERSION");
    return given ? (uint32_t)atoi(given) : 130000;
}
int cuptiGetVersion(uint32_t *version) { return *version = fake_version(), 0; }
int cuptiGetResultString(int result, const char **text)
{
    return *text = result == ERROR_OTHER_SUBSCRIBER ? "OTHER_SUBSCRIBER" : "OTHER", 0;
}
int cuptiSubscribe(void **handle, callback function, void *data)
{
    (void)data;
    if (getenv("FAKE_SUBSCRIBED"))
        return ERROR_OTHER_SUBSCRIBER;
    *handle = &subscriber;
    subscriber = function;
    return 0;
}
int cuptiEnableCallback(uint32_t on, void *handle, int domain, uint32_t id)
{
    (void)on, (void)handle, (void)domain, (void)id;
    return 0;
}
int cuptiGetCallbackName(int domain, uint32_t id, const char **name)
{
    static const char *const RUNTIME[] = {NULL, "cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020",
                                          "cudaGetDevice_v3020", "cudaStreamSynchronize_v3020"};
    static const char *const DRIVER[] = {NULL, "cuLaunchKernel", "cuKernelGetName"};
    const char *const *names = domain == DOMAIN_RUNTIME_API ? RUNTIME : DRIVER;
    size_t count = domain == DOMAIN_RUNTIME_API ? 5 : 3;
    if (id >= count)
        return 1;
    *name = names[id];
    return 0;
}
int cuptiSetThreadIdType(int type) { return type != THREAD_IDS_OF_SYSTEM; }
int cuptiActivityRegisterCallbacks(void *request, void *complete)
{
    *(void **)&on_request = request;
    *(void **)&on_complete = complete;
    return 0;
}
int cuptiActivityRegisterTimestampCallback(uint64_t (*clock)(void)) { return now = clock, 0; }
int cuptiActivityEnable(int kind) { return enabled[kind] = 1, 0; }
int cuptiActivityDisable(int kind) { return enabled[kind] = 0; }
/* As CUPTI 13.0: a call of the driver that is enabled alone is not recorded if CUDA was initialized. */
int cuptiActivityEnableDriverApi(uint32_t id, uint8_t on)
{
    if (id < sizeof switched_off)
        switched_off[id] = !on;
    return 0;
}
int cuptiActivityEnableRuntimeApi(uint32_t id, uint8_t on) { return (void)id, (void)on, 0; }
int cuptiActivityFlushPeriod(uint32_t ms) { return (void)ms, 0; }
int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count)
{
    (void)context, (void)stream;
    *count = getenv("FAKE_DROPPED") ? 3 : 0;
    return 0;
}
int cuptiActivityGetNextRecord(uint8_t *from, size_t valid, uint8_t **record)
{
    uint8_t *next = *record ? *record + size_of(*(int *)*record) : from;
    if (next >= from + valid)
        return 12;
    *record = next;
    return 0;
}
int cuptiGetGraphNodeId(void *node, uint64_t *id) { return *id = (uint64_t)(uintptr_t)node, 0; }

static void complete(void)
{
    uint8_t *full = buffer;
    size_t bytes = used;
    buffer = NULL;
    used = 0;
    if (full)
        on_complete(NULL, 0, full, room, bytes);
}
int cuptiActivityFlushAll(uint32_t flag) { return (void)flag, complete(), 0; }

static uint8_t *record(int kind)
{
    static uint8_t unused[256];
    size_t bytes = size_of(kind), most;
    uint8_t *made;
    if (!enabled[kind])
        return unused;
    if (buffer && used + bytes > room)
        complete();
    if (!buffer)
        on_request(&buffer, &room, &most);
    made = buffer + used;
    used += bytes;
    memset(made, 0xAB, bytes); /* fields that the collector does not know hold anything */
    *(int *)made = kind;
    return made;
}

#define PUT(type, place, value) (*(type *)(made + (place)) = (type)(value))

static void call(int kind, uint32_t id, uint64_t start, uint64_t end)
{
    uint8_t *made;
    if (kind == KIND_DRIVER && switched_off[id])
        return;
    made = record(kind);
    PUT(uint32_t, API_CBID, id);
    PUT(uint64_t, API_START, start);
    PUT(uint64_t, API_END, end);
    PUT(uint32_t, API_THREAD, syscall(SYS_gettid));
    PUT(uint32_t, API_CORRELATION, correlation);
    PUT(uint32_t, API_RESULT, 0);
}

/* The driver loads the injected library when CUDA is initialized. */
int fake_init(void)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    int (*initialize)(void);
    if (!library)
        return 0;
    *(void **)&initialize = dlsym(library, "InitializeInjection");
    return initialize();
}

/* Calls end before they return, as CUPTI dates them: ranges around them are closed later. */
static uint64_t time_now(void) { return now ? now() : 0; }

static int launch(const char *name, uint64_t node, int is_of_runtime)
{
    uint64_t start = time_now(), inner = time_now(), inner_end = time_now(), end = time_now();
    uint8_t *made;
    int axis;
    correlation++;
    if (is_of_runtime) {
        call(KIND_RUNTIME, 3, start, start); /* a query, which is not recorded */
        call(KIND_RUNTIME, 1, start, end);
    }
    call(KIND_DRIVER, 2, inner, inner); /* one more */
    call(KIND_DRIVER, 1, inner, inner_end);
    made = record(KIND_CONCURRENT_KERNEL);
    PUT(uint64_t, KERNEL_START, start + 1000);
    PUT(uint64_t, KERNEL_END, start + 3000);
    PUT(uint32_t, KERNEL_DEVICE, 0);
    PUT(uint32_t, KERNEL_CONTEXT, 1);
    PUT(uint32_t, KERNEL_STREAM, 7);
    PUT(uint32_t, KERNEL_CORRELATION, correlation);
    PUT(uint64_t, KERNEL_GRAPH_NODE, node);
    PUT(const char *, KERNEL_NAME, strdup(name)); /* valid as long as the process */
    for (axis = 0; axis < 3; axis++) {
        PUT(int32_t, KERNEL_GRID + 4 * axis, 10 + axis);
        PUT(int32_t, KERNEL_BLOCK + 4 * axis, 20 + axis);
    }
    return (int)correlation;
}

int fake_launch(const char *name, uint64_t node) { return launch(name, node, 1); }
/* As libraries of matrix products do. */
int fake_launch_by_driver(const char *name) { return launch(name, 0, 0); }

void fake_copy(uint64_t bytes, int is_peer)
{
    uint64_t start = time_now();
    uint8_t *made;
    correlation++;
    call(KIND_RUNTIME, 2, start, time_now());
    made = record(is_peer ? KIND_MEMCPY_PEER : KIND_MEMCPY);
    PUT(uint8_t, COPY_KIND, 1);
    PUT(uint8_t, COPY_SOURCE, 2); /* pinned */
    PUT(uint8_t, COPY_TARGET, 3);
    PUT(uint64_t, MEMORY_BYTES, bytes);
    PUT(uint64_t, MEMORY_START, start + 600);
    PUT(uint64_t, MEMORY_END, start + 700);
    PUT(uint32_t, MEMORY_DEVICE, 0);
    PUT(uint32_t, MEMORY_CONTEXT, 1);
    PUT(uint32_t, MEMORY_STREAM, 7);
    PUT(uint32_t, is_peer ? PEER_CORRELATION : MEMORY_CORRELATION, correlation);
    PUT(uint64_t, is_peer ? PEER_GRAPH_NODE : MEMORY_GRAPH_NODE, 0);
    made = record(KIND_MEMSET);
    PUT(uint64_t, MEMORY_BYTES, bytes);
    PUT(uint64_t, MEMORY_START, 0); /* the GPU has not run it yet */
    PUT(uint64_t, MEMORY_END, 0);
}

void fake_wait(uint32_t event)
{
    uint64_t start = time_now(), waits = time_now(), waited = time_now(), end = time_now();
    uint8_t *made = record(KIND_CUDA_EVENT);
    correlation++;
    PUT(uint32_t, EVENT_CORRELATION, correlation);
    PUT(uint32_t, EVENT_CONTEXT, 1);
    PUT(uint32_t, EVENT_STREAM, 7);
    PUT(uint32_t, EVENT_ID, event);
    PUT(uint64_t, EVENT_EVENT_SYNC, 40 + event);
    correlation++;
    call(KIND_RUNTIME, 4, start, end);
    made = record(KIND_SYNCHRONIZATION);
    PUT(uint32_t, SYNC_TYPE, 3);
    PUT(uint64_t, SYNC_START, waits);
    PUT(uint64_t, SYNC_END, waited);
    PUT(uint32_t, SYNC_CORRELATION, correlation);
    PUT(uint32_t, SYNC_CONTEXT, 1);
    PUT(uint32_t, SYNC_STREAM, 7);
    PUT(uint32_t, SYNC_EVENT, event);
    PUT(uint64_t, SYNC_EVENT_SYNC, 40 + event);
    made = record(KIND_OVERHEAD);
    PUT(uint32_t, OVERHEAD_KIND, 1 << 16);
    PUT(uint32_t, OVERHEAD_OBJECT_KIND, OBJECT_THREAD);
    PUT(uint32_t, OVERHEAD_THREAD, syscall(SYS_gettid));
    PUT(uint64_t, OVERHEAD_START, start);
    PUT(uint64_t, OVERHEAD_END, start + 5);
}

/* A graph node is created, or cloned from `original`. */
void fake_graph_node(uint64_t node, uint64_t original)
{
    uint64_t graph[7] = {0}, resource[3] = {0};
    graph[GRAPH_NODE / 8] = node;
    graph[GRAPH_ORIGINAL_NODE / 8] = original;
    resource[RESOURCE_DESCRIPTOR / 8] = (uint64_t)(uintptr_t)graph;
    if (subscriber)
        subscriber(NULL, DOMAIN_RESOURCE,
                   original ? CALLBACK_GRAPH_NODE_CLONED : CALLBACK_GRAPH_NODE_CREATED, resource);
}

void fake_profiler(int is_start)
{
    int exit[8] = {SITE_EXIT};
    if (subscriber)
        subscriber(NULL, DOMAIN_DRIVER_API,
                   is_start ? CALLBACK_PROFILER_START : CALLBACK_PROFILER_STOP, exit);
}

/* What NVTX's headers do: tables of pointers to functions, which the injected library fills. */

typedef void (*function)(void);
static function core[16], core2[16], *core_table[16], *core2_table[16];

static int module_table(int module, function ***table, unsigned *size)
{
    *table = module == 1 ? core_table : core2_table;
    *size = 16;
    return module == 1 || module == 5;
}

static const void *export_table(uint32_t id)
{
    static const struct {
        size_t size;
        int (*table)(int, function ***, unsigned *);
    } CALLBACKS = {sizeof CALLBACKS, module_table};
    return id == 1 ? &CALLBACKS : NULL;
}

int nvtx_init(void)
{
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
    int (*initialize)(const void *(*)(uint32_t)), at;
    for (at = 0; at < 16; at++)
        core_table[at] = &core[at], core2_table[at] = &core2[at];
    if (!library)
        return 0;
    *(void **)&initialize = dlsym(library, "InitializeInjectionNvtx2");
    return initialize(export_table);
}

int nvtx_push(const char *text) { return ((int (*)(const char *))core[9])(text); }
int nvtx_push_wide(const void *text) { return ((int (*)(const void *))core[10])(text); }
int nvtx_push_attributes(const void *a) { return ((int (*)(const void *))core[8])(a); }
int nvtx_pop(void) { return ((int (*)(void))core[11])(); }
uint64_t nvtx_start(const char *text) { return ((uint64_t (*)(const char *))core[5])(text); }
void nvtx_end(uint64_t id) { ((void (*)(uint64_t))core[7])(id); }
void nvtx_mark(const char *text) { ((void (*)(const char *))core[2])(text); }
void nvtx_category(uint32_t id, const char *text)
{
    ((void (*)(uint32_t, const char *))core[12])(id, text);
}
void nvtx_thread(uint32_t id, const char *text)
{
    ((void (*)(uint32_t, const char *))core[14])(id, text);
}
void *nvtx_domain(const char *name) { return ((void *(*)(const char *))core2[12])(name); }
void *nvtx_register(void *domain, const char *text)
{
    return ((void *(*)(void *, const char *))core2[10])(domain, text);
}
int nvtx_domain_push(void *domain, const void *a)
{
    return ((int (*)(void *, const void *))core2[4])(domain, a);
}
int nvtx_domain_pop(void *domain) { return ((int (*)(void *))core2[5])(domain); }

/* Push and pop `count` times; for measurements. */
void nvtx_many(const char *text, int count)
{
    for (; count; count--) {
        nvtx_push(text);
        nvtx_pop();
    }
}
