/* Plays CUDA and a program that uses NVTX's headers, to test the collector without a GPU.

   With CUPTI in the same library, as in a program that has loaded it; or, if it is compiled with
   SEPARATE_CUPTI, without: the collector loads libcupti.so.99 then. */
#define _GNU_SOURCE
#include "abi.h"
#ifdef SEPARATE_CUPTI
#include "fake_cupti.h"
#else
#include "fake_cupti.c"
#endif

#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#ifdef SEPARATE_CUPTI
static void *loaded(void) { return dlopen("libcupti.so.99", RTLD_NOW | RTLD_NOLOAD); }
static uint8_t nowhere[256];
#define FROM_CUPTI(type, name, arguments) static type (*name##_of_cupti) arguments;
FAKE_CUPTI(FROM_CUPTI)
static int find_cupti(void)
{
    void *library = loaded();
    if (!library)
        return 0;
#define LOOK_UP(type, name, arguments) *(void **)&name##_of_cupti = dlsym(library, "fake_cupti_" #name);
    FAKE_CUPTI(LOOK_UP)
    return 1;
}
#define fake_cupti_lock() (find_cupti() ? lock_of_cupti() : (void)0)
#define fake_cupti_unlock() (lock_of_cupti ? unlock_of_cupti() : (void)0)
#define fake_cupti_next() (lock_of_cupti ? next_of_cupti() : 0)
#define fake_cupti_is_off(id) (lock_of_cupti && is_off_of_cupti(id))
#define fake_cupti_now() (lock_of_cupti ? now_of_cupti() : 0)
#define fake_cupti_record(kind) (lock_of_cupti ? record_of_cupti(kind) : nowhere)
#define fake_cupti_leave_open(record) (lock_of_cupti ? leave_open_of_cupti(record) : (void)0)
#define fake_cupti_callback(a, b, c) (find_cupti() ? callback_of_cupti(a, b, c) : (void)0)
#endif

static uint32_t current;

#define PUT(type, place, value) (*(type *)(made + (place)) = (type)(value))

static void call(int kind, uint32_t id, uint64_t start, uint64_t end)
{
    uint8_t *made;
    if (kind == KIND_DRIVER && fake_cupti_is_off(id))
        return;
    made = fake_cupti_record(kind);
    PUT(uint32_t, API_CBID, id);
    PUT(uint64_t, API_START, start);
    PUT(uint64_t, API_END, end);
    PUT(uint32_t, API_THREAD, syscall(SYS_gettid));
    PUT(uint32_t, API_CORRELATION, current);
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
static uint64_t time_now(void) { return fake_cupti_now(); }

/* A copy of a name that is valid as long as the process; there is one of each of the first. */
static const char *kept(const char *name)
{
    static const char *all[64];
    int at;
    for (at = 0; at < 64 && all[at]; at++)
        if (!strcmp(all[at], name))
            return all[at];
    name = strdup(name);
    if (at < 64)
        all[at] = name;
    return name;
}

static int launch(const char *name, uint64_t node, int is_of_runtime, int is_slow)
{
    uint64_t start = time_now(), inner = time_now(), inner_end = time_now(), end = time_now();
    uint8_t *made;
    int axis;
    current = fake_cupti_next();
    if (is_of_runtime) {
        call(KIND_RUNTIME, 3, start, start); /* a query, which is not recorded */
        call(KIND_RUNTIME, 1, start, end);
    }
    call(KIND_DRIVER, 2, inner, inner); /* one more */
    call(KIND_DRIVER, 1, inner, inner_end);
    made = fake_cupti_record(KIND_CONCURRENT_KERNEL);
    PUT(uint64_t, KERNEL_START, start + 1000);
    PUT(uint64_t, KERNEL_END, start + 3000);
    PUT(uint32_t, KERNEL_DEVICE, 0);
    PUT(uint32_t, KERNEL_CONTEXT, 1);
    PUT(uint32_t, KERNEL_STREAM, 7);
    PUT(uint32_t, KERNEL_CORRELATION, current);
    PUT(uint64_t, KERNEL_GRAPH_NODE, node);
    PUT(const char *, KERNEL_NAME, kept(name));
    for (axis = 0; axis < 3; axis++) {
        PUT(int32_t, KERNEL_GRID + 4 * axis, 10 + axis);
        PUT(int32_t, KERNEL_BLOCK + 4 * axis, 20 + axis);
    }
    if (is_slow)
        fake_cupti_leave_open(made);
    return (int)current;
}

static int locked_launch(const char *name, uint64_t node, int is_of_runtime, int is_slow)
{
    int number;
    fake_cupti_lock();
    number = launch(name, node, is_of_runtime, is_slow);
    fake_cupti_unlock();
    return number;
}

int fake_launch(const char *name, uint64_t node) { return locked_launch(name, node, 1, 0); }
/* As libraries of matrix products do. */
int fake_launch_by_driver(const char *name) { return locked_launch(name, 0, 0, 0); }
/* Its kernel runs until fake_finish. */
int fake_launch_slow(const char *name) { return locked_launch(name, 0, 1, 1); }

static int driver_call(uint32_t id, int value, int *result)
{
    int enter[8] = {0}, exit[8] = {SITE_EXIT};
    fake_cupti_callback(DOMAIN_DRIVER_API, id, enter);
    *result = value;
    fake_cupti_callback(DOMAIN_DRIVER_API, id, exit);
    return 0;
}
int cuDriverGetVersion(int *version)
{
    return driver_call(CALLBACK_DRIVER_VERSION, 13000, version);
}
int cuDeviceGetCount(int *count) { return driver_call(CALLBACK_DEVICE_COUNT, 1, count); }

void fake_copy(uint64_t bytes, int is_peer)
{
    uint64_t start = time_now();
    uint8_t *made;
    current = fake_cupti_next();
    call(KIND_RUNTIME, 2, start, time_now());
    made = fake_cupti_record(is_peer ? KIND_MEMCPY_PEER : KIND_MEMCPY);
    PUT(uint8_t, COPY_KIND, 1);
    PUT(uint8_t, COPY_SOURCE, 2); /* pinned */
    PUT(uint8_t, COPY_TARGET, 3);
    PUT(uint64_t, MEMORY_BYTES, bytes);
    PUT(uint64_t, MEMORY_START, start + 600);
    PUT(uint64_t, MEMORY_END, start + 700);
    PUT(uint32_t, MEMORY_DEVICE, 0);
    PUT(uint32_t, MEMORY_CONTEXT, 1);
    PUT(uint32_t, MEMORY_STREAM, 7);
    PUT(uint32_t, is_peer ? PEER_CORRELATION : MEMORY_CORRELATION, current);
    PUT(uint64_t, is_peer ? PEER_GRAPH_NODE : MEMORY_GRAPH_NODE, 0);
    made = fake_cupti_record(KIND_MEMSET);
    PUT(uint64_t, MEMORY_BYTES, bytes);
    PUT(uint64_t, MEMORY_START, 0); /* the GPU has not run it yet */
    PUT(uint64_t, MEMORY_END, 0);
}

void fake_wait(uint32_t event)
{
    uint64_t start = time_now(), waits = time_now(), waited = time_now(), end = time_now();
    uint8_t *made = fake_cupti_record(KIND_CUDA_EVENT);
    current = fake_cupti_next();
    PUT(uint32_t, EVENT_CORRELATION, current);
    PUT(uint32_t, EVENT_CONTEXT, 1);
    PUT(uint32_t, EVENT_STREAM, 7);
    PUT(uint32_t, EVENT_ID, event);
    PUT(uint64_t, EVENT_EVENT_SYNC, 40 + event);
    current = fake_cupti_next();
    call(KIND_RUNTIME, 4, start, end);
    made = fake_cupti_record(KIND_SYNCHRONIZATION);
    PUT(uint32_t, SYNC_TYPE, 3);
    PUT(uint64_t, SYNC_START, waits);
    PUT(uint64_t, SYNC_END, waited);
    PUT(uint32_t, SYNC_CORRELATION, current);
    PUT(uint32_t, SYNC_CONTEXT, 1);
    PUT(uint32_t, SYNC_STREAM, 7);
    PUT(uint32_t, SYNC_EVENT, event);
    PUT(uint64_t, SYNC_EVENT_SYNC, 40 + event);
    made = fake_cupti_record(KIND_OVERHEAD);
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
    fake_cupti_callback(DOMAIN_RESOURCE,
                        original ? CALLBACK_GRAPH_NODE_CLONED : CALLBACK_GRAPH_NODE_CREATED,
                        resource);
}

void fake_profiler(int is_start)
{
    int exit[8] = {SITE_EXIT};
    fake_cupti_callback(DOMAIN_DRIVER_API,
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

/* Write ranges in a handler of a signal while this thread writes others, so often. */
static volatile sig_atomic_t handled;
static void handle(int number)
{
    (void)number;
    nvtx_push("handler");
    nvtx_pop();
    handled++;
}
void nvtx_interrupted(int times)
{
    struct itimerval period = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    signal(SIGALRM, handle);
    setitimer(ITIMER_REAL, &period, NULL);
    while (handled < times)
        nvtx_many("main", 10);
    setitimer(ITIMER_REAL, &never, NULL);
}
