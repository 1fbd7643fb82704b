/* Plays CUPTI, as far as the collector uses it: its records have their fields at the places of
   abi.h, which check_abi.c compares with CUPTI. It breaks where the real one does: after its own
   handler of the end of the program has run (FAKE_DIES), or when it is detached at another place
   than the exit of a call of the driver. */
#define _GNU_SOURCE
#include "fake_cupti.h"
#include "abi.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef void (*callback)(void *, int, uint32_t, const void *);
static callback subscriber;
static void (*on_request)(uint8_t **, size_t *, size_t *);
static void (*on_complete)(void *, uint32_t, uint8_t *, size_t, size_t);
static uint64_t (*clock_of_client)(void);
static uint8_t enabled[64], switched_off[8], *buffer, *incomplete[64];
static uint8_t watched_graphs[32], watched_driver[512];
static size_t room, used;
static uint32_t correlation;
static int is_dead, has_other, attached, finalized;
static __thread int at_exit_site;
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static const struct {
    int kind;
    size_t bytes;
} SIZES[] = {{KIND_RUNTIME, 40},  {KIND_DRIVER, 40},    {KIND_CONCURRENT_KERNEL, 248},
             {KIND_MEMCPY, 112},  {KIND_MEMSET, 104},   {KIND_SYNCHRONIZATION, 56},
             {KIND_CUDA_EVENT, 80}, {KIND_OVERHEAD, 56}, {KIND_MEMCPY_PEER, 96}};

static void die(void) { is_dead = 1; }

__attribute__((constructor)) static void load(void)
{
    const char *dies = getenv("FAKE_DIES");
    if (dies && !strcmp(dies, "loaded"))
        atexit(die);
}

static void must_live(void)
{
    if (is_dead)
        raise(SIGSEGV);
}

/* As a CUPTI that waits for ever. */
static void may_hang(const char *where)
{
    const char *hangs = getenv("FAKE_HANGS");
    while (hangs && !strcmp(hangs, where))
        sleep(1);
}

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
    must_live();
    may_hang("subscribe");
    if (getenv("FAKE_SUBSCRIBED") || has_other || subscriber)
        return ERROR_OTHER_SUBSCRIBER;
    *handle = &subscriber;
    subscriber = function;
    return 0;
}
int cuptiUnsubscribe(void *handle)
{
    must_live();
    if (handle != &subscriber || !subscriber)
        return 1;
    subscriber = NULL;
    memset(watched_graphs, 0, sizeof watched_graphs);
    memset(watched_driver, 0, sizeof watched_driver);
    return 0;
}
int cuptiEnableCallback(uint32_t on, void *handle, int domain, uint32_t id)
{
    must_live();
    if (handle != &subscriber || !subscriber)
        return 1;
    (domain == DOMAIN_RESOURCE ? watched_graphs : watched_driver)[id] = (uint8_t)on;
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
    must_live();
    if (getenv("FAKE_NO_BUFFERS"))
        return 1;
    *(void **)&on_request = request;
    *(void **)&on_complete = complete;
    return 0;
}
int cuptiActivityRegisterTimestampCallback(uint64_t (*clock)(void))
{
    return clock_of_client = clock, 0;
}
int cuptiActivityEnable(int kind)
{
    must_live();
    attached = 1;
    return enabled[kind] = 1, 0;
}
int cuptiActivityDisable(int kind) { return must_live(), enabled[kind] = 0; }
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
int cuptiGetGraphNodeId(void *node, uint64_t *id)
{
    must_live();
    return *id = (uint64_t)(uintptr_t)node, 0;
}

static void complete(void)
{
    uint8_t *full = buffer;
    size_t bytes = used;
    buffer = NULL;
    used = 0;
    memset(incomplete, 0, sizeof incomplete);
    if (full)
        on_complete(NULL, 0, full, room, bytes);
}

/* Without a flag only what is complete is returned. */
int cuptiActivityFlushAll(uint32_t flag)
{
    size_t at;
    must_live();
    may_hang("flush");
    pthread_mutex_lock(&lock);
    for (at = 0; at < sizeof incomplete / sizeof *incomplete && !incomplete[at]; at++)
        ;
    if (flag == FLUSH_FORCED || at == sizeof incomplete / sizeof *incomplete)
        complete();
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuptiFinalize(void)
{
    must_live();
    if (!at_exit_site)
        abort(); /* the real one may crash */
    may_hang("finalize");
    pthread_mutex_lock(&lock);
    subscriber = NULL;
    memset(watched_graphs, 0, sizeof watched_graphs);
    memset(watched_driver, 0, sizeof watched_driver);
    memset(enabled, 0, sizeof enabled);
    clock_of_client = NULL;
    correlation = 0;
    attached = 0;
    finalized++;
    pthread_mutex_unlock(&lock);
    return 0;
}

/* For the stand-in of CUDA. */

void fake_cupti_lock(void) { pthread_mutex_lock(&lock); }
void fake_cupti_unlock(void) { pthread_mutex_unlock(&lock); }
uint32_t fake_cupti_next(void) { return ++correlation; }
int fake_cupti_is_off(uint32_t id) { return switched_off[id]; }

uint64_t fake_cupti_now(void)
{
    struct timespec time;
    if (clock_of_client)
        return clock_of_client();
    clock_gettime(CLOCK_REALTIME, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint8_t *fake_cupti_record(int kind)
{
    static uint8_t unused[256];
    static int is_registered;
    const char *dies = getenv("FAKE_DIES");
    size_t bytes = size_of(kind), most;
    uint8_t *made;
    if (!enabled[kind])
        return unused;
    if (!is_registered && dies && !strcmp(dies, "first record"))
        is_registered = !atexit(die);
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

/* The GPU has not run a kernel yet; fake_finish ends it. */
void fake_cupti_leave_open(uint8_t *record)
{
    size_t at;
    *(uint64_t *)(record + KERNEL_START) = *(uint64_t *)(record + KERNEL_END) = 0;
    for (at = 0; at < sizeof incomplete / sizeof *incomplete; at++)
        if (!incomplete[at]) {
            incomplete[at] = record;
            return;
        }
}

void fake_finish(void)
{
    size_t at;
    pthread_mutex_lock(&lock);
    for (at = 0; at < sizeof incomplete / sizeof *incomplete; at++)
        if (incomplete[at]) {
            *(uint64_t *)(incomplete[at] + KERNEL_START) = fake_cupti_now();
            *(uint64_t *)(incomplete[at] + KERNEL_END) = fake_cupti_now() + 1;
            incomplete[at] = NULL;
        }
    pthread_mutex_unlock(&lock);
}

void fake_cupti_callback(int domain, uint32_t id, const void *data)
{
    callback function = subscriber;
    if (!function || !(domain == DOMAIN_RESOURCE ? watched_graphs : watched_driver)[id])
        return;
    at_exit_site = domain == DOMAIN_DRIVER_API && *(const int *)data == SITE_EXIT;
    function(NULL, domain, id, data);
    at_exit_site = 0;
}

/* Another profiler of the program takes CUPTI, or leaves it. */
void fake_other(int on) { has_other = on; }
/* Whether anything of CUPTI is in the process, and how often it was detached. */
int fake_is_attached(void) { return attached || subscriber; }
int fake_finalized(void) { return finalized; }
