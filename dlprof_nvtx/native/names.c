#define _GNU_SOURCE
#include "names.h"
#include "abi.h"
#include "library.h"
#include "output.h"

#include <stdlib.h>
#include <string.h>

#define MOST_CALLBACKS 4096
#define CACHED 1024

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
    uint32_t *wider = calloc(2 * (size_t)room, sizeof *slots), *previous;
    if (more)
        names = more;
    if (!more || !wider) {
        free(wider);
        return 0;
    }
    previous = slots;
    slots = wider;
    slot_count = 2 * room;
    free(previous);
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
    output_write(CHUNK_STRING, 0, chunk, sizeof id + length);
    free(chunk);
}

uint32_t names_id(const char *text)
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

int names_is_recorded(int domain, const char *name)
{
    if (domain == DOMAIN_RUNTIME_API)
        return !begins_with_any(name, QUERIES, sizeof QUERIES / sizeof *QUERIES);
    return begins_with_any(name, WORK, sizeof WORK / sizeof *WORK) || !strcmp(name, "cuModuleLoad");
}

static struct call calls[2][MOST_CALLBACKS];

const struct call *names_call(int is_driver, uint32_t cbid)
{
    int domain = is_driver ? DOMAIN_DRIVER_API : DOMAIN_RUNTIME_API;
    const char *name = NULL;
    struct call *call;
    if (cbid >= MOST_CALLBACKS)
        return NULL;
    call = &calls[is_driver][cbid];
    if (!call->is_known) {
        call->is_known = 1;
        if (!cupti.GetCallbackName(domain, cbid, &name) && name && names_is_recorded(domain, name)) {
            call->is_recorded = 1;
            call->name = names_id(name);
        }
    }
    return call;
}

void names_repeat(void)
{
    uint32_t at;
    for (at = 0; at < name_count; at++)
        write_name(at + 1, names[at].text);
}

void names_forget(void)
{
    names = NULL;
    slots = NULL;
    name_count = name_room = slot_count = 0;
    memset(cache, 0, sizeof cache);
    memset(calls, 0, sizeof calls);
}
