#define _GNU_SOURCE
#include "nvtx.h"
#include "output.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define LANE_RECORDS 1024
#define LANE_TEXT (1u << 18)
#define MOST_TEXT (1u << 17)
#define MOST_WIDE 4096
#define MOST_DOMAINS 64

enum { MODULE_CORE = 1, MODULE_CORE2 = 5, TABLE_CALLBACKS = 1 };
enum { MESSAGE_ASCII = 1, MESSAGE_UNICODE = 2, MESSAGE_REGISTERED = 3 };

/* The attributes of an event, version 2 and 3 of NVTX. */
struct attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
};

struct text {
    const char *bytes;
    uint32_t length;
};

struct domain {
    uint32_t id;
    struct domain *next;
    struct text name;
    char bytes[];
};

/* The records of one thread that are not yet in the file. */
struct lane {
    pthread_mutex_t lock;
    struct lane *next, **before;
    uint32_t thread, count, text_bytes;
    int depth[MOST_DOMAINS];
    struct nvtx_record records[LANE_RECORDS];
    char text[LANE_TEXT];
};

static pthread_mutex_t lanes_lock = PTHREAD_MUTEX_INITIALIZER;
static struct lane *lanes;
static __thread struct lane *own_lane;
static pthread_key_t end_of_thread;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static uint64_t last_range;
static uint32_t last_domain;
static struct domain *domains;
static int must_name_domains; /* in the file of a child, which inherits them */
static void (*on_first_use)(void);
/* How many functions of the collector this thread is in. A handler of a signal may interrupt them,
   and would wait for ever for a lock that its own thread holds: it records nothing then. */
static __thread volatile sig_atomic_t inside;
static _Atomic unsigned long interrupted; /* records that are missing for that reason */

void nvtx_enter(void) { inside++; }
void nvtx_leave(void) { inside--; }

static void flush(struct lane *lane)
{
    if (lane->count)
        output_write_pair(CHUNK_NVTX, sizeof *lane->records, lane->records,
                             lane->count * sizeof *lane->records, CHUNK_NVTX_TEXT, lane->text,
                             lane->text_bytes);
    lane->count = lane->text_bytes = 0;
}

void nvtx_flush(void)
{
    struct lane *lane;
    nvtx_enter();
    pthread_mutex_lock(&lanes_lock);
    for (lane = lanes; lane; lane = lane->next) {
        pthread_mutex_lock(&lane->lock);
        flush(lane);
        pthread_mutex_unlock(&lane->lock);
    }
    pthread_mutex_unlock(&lanes_lock);
    nvtx_leave();
}

void nvtx_end(void)
{
    char text[32];
    nvtx_flush();
    if (interrupted) {
        snprintf(text, sizeof text, "%lu", interrupted);
        output_note("interrupted", text);
        interrupted = 0;
    }
}

void nvtx_init(void (*hook)(void)) { on_first_use = hook; }

void nvtx_forget(void)
{
    pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    lanes_lock = unlocked;
    lanes = own_lane = NULL;
    must_name_domains = 1;
    inside = 0;
    interrupted = 0;
}

static void end_lane(void *value)
{
    struct lane *lane = value;
    if (lane != own_lane)
        return; /* of the process that this one was forked from */
    nvtx_enter();
    pthread_mutex_lock(&lanes_lock);
    pthread_mutex_lock(&lane->lock);
    flush(lane);
    *lane->before = lane->next;
    if (lane->next)
        lane->next->before = lane->before;
    pthread_mutex_unlock(&lane->lock);
    pthread_mutex_unlock(&lanes_lock);
    own_lane = NULL;
    nvtx_leave();
    free(lane);
}

static void make_key(void)
{
    pthread_key_create(&end_of_thread, end_lane);
}

static void name_domains(void);

static struct lane *find_lane(void)
{
    struct lane *lane = own_lane;
    if (lane)
        return lane;
    on_first_use();
    pthread_once(&key_once, make_key);
    lane = malloc(sizeof *lane);
    if (!lane)
        return NULL;
    memset(lane, 0, offsetof(struct lane, records));
    pthread_mutex_init(&lane->lock, NULL);
    lane->thread = output_thread();
    pthread_mutex_lock(&lanes_lock);
    lane->next = lanes;
    lane->before = &lanes;
    if (lanes)
        lanes->before = &lane->next;
    lanes = lane;
    pthread_mutex_unlock(&lanes_lock);
    own_lane = lane;
    pthread_setspecific(end_of_thread, lane);
    if (must_name_domains) {
        must_name_domains = 0;
        name_domains();
    }
    return lane;
}

static void add(struct lane *lane, uint32_t kind, uint32_t domain, uint64_t time, uint64_t id,
                struct text text)
{
    struct nvtx_record *record = &lane->records[lane->count];
    record->time = time;
    record->id = id;
    record->domain = domain;
    record->thread = lane->thread;
    record->text_bytes = text.length;
    record->kind = kind;
    if (text.length)
        memcpy(lane->text + lane->text_bytes, text.bytes, text.length);
    lane->text_bytes += text.length;
    lane->count++;
}

static const struct text NO_TEXT = {NULL, 0};

static void record_inside(uint32_t kind, const struct domain *domain, uint64_t id,
                          struct text text, const struct attributes *attributes)
{
    struct lane *lane;
    if (!(lane = find_lane()) || (!output_is_on && kind < NVTX_DOMAIN))
        return;
    pthread_mutex_lock(&lane->lock);
    if (lane->count + 2 > LANE_RECORDS || lane->text_bytes + text.length > LANE_TEXT)
        flush(lane);
    if (attributes && (attributes->category || attributes->payload_type))
        add(lane, NVTX_ATTRIBUTES, domain ? domain->id : 0,
            attributes->category | (uint64_t)(uint32_t)attributes->payload_type << 32,
            attributes->payload, NO_TEXT);
    add(lane, kind, domain ? domain->id : 0, output_now(), id, text);
    pthread_mutex_unlock(&lane->lock);
}

static void record(uint32_t kind, const struct domain *domain, uint64_t id, struct text text,
                   const struct attributes *attributes)
{
    if (output_has_failed)
        return;
    if (inside) {
        interrupted += output_is_on;
        return;
    }
    nvtx_enter();
    record_inside(kind, domain, id, text, attributes);
    nvtx_leave();
}

static struct text narrow(const char *text)
{
    struct text result = {text, text ? (uint32_t)strnlen(text, MOST_TEXT) : 0};
    return result;
}

/* Write a wide text as UTF-8 into `buffer`, which has room for 4 bytes of each character. */
static struct text wide(const wchar_t *text, char *buffer)
{
    struct text result = {buffer, 0};
    char *end = buffer;
    int at;
    for (at = 0; text && text[at] && at < MOST_WIDE; at++) {
        uint32_t code = (uint32_t)text[at];
        if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
            code = 0xfffd;
        if (code < 0x80) {
            *end++ = (char)code;
            continue;
        }
        if (code < 0x800) {
            *end++ = (char)(0xc0 | code >> 6);
        } else {
            if (code < 0x10000) {
                *end++ = (char)(0xe0 | code >> 12);
            } else {
                *end++ = (char)(0xf0 | code >> 18);
                *end++ = (char)(0x80 | (code >> 12 & 0x3f));
            }
            *end++ = (char)(0x80 | (code >> 6 & 0x3f));
        }
        *end++ = (char)(0x80 | (code & 0x3f));
    }
    result.length = (uint32_t)(end - buffer);
    return result;
}

static void record_attributes(uint32_t kind, const struct domain *domain, uint64_t id,
                              const struct attributes *attributes)
{
    char buffer[4 * MOST_WIDE];
    struct text text = NO_TEXT;
    if (!output_is_on && own_lane)
        return;
    if (!attributes || attributes->size < sizeof *attributes) {
        record(kind, domain, id, text, NULL);
        return;
    }
    if (attributes->message_type == MESSAGE_ASCII)
        text = narrow(attributes->message);
    else if (attributes->message_type == MESSAGE_UNICODE)
        text = wide(attributes->message, buffer);
    else if (attributes->message_type == MESSAGE_REGISTERED && attributes->message)
        text = *(const struct text *)attributes->message;
    record(kind, domain, id, text, attributes);
}

static int step_depth(const struct domain *domain, int step)
{
    struct lane *lane = own_lane;
    uint32_t id = domain ? domain->id : 0;
    int *depth;
    if (!lane || id >= MOST_DOMAINS)
        return 0;
    depth = &lane->depth[id];
    if (step > 0)
        return (*depth)++;
    return *depth > 0 ? --*depth : -1;
}

static uint64_t next_range(void)
{
    return __atomic_add_fetch(&last_range, 1, __ATOMIC_RELAXED);
}

/* The functions of NVTX, in the order of their numbers. */

static void mark_ex(const struct attributes *a) { record_attributes(NVTX_MARK, NULL, 0, a); }
static void mark_a(const char *text) { record(NVTX_MARK, NULL, 0, narrow(text), NULL); }
static void mark_w(const wchar_t *text)
{
    char buffer[4 * MOST_WIDE];
    record(NVTX_MARK, NULL, 0, wide(text, buffer), NULL);
}
static uint64_t start_ex(const struct attributes *a)
{
    uint64_t id = next_range();
    record_attributes(NVTX_START, NULL, id, a);
    return id;
}
static uint64_t start_a(const char *text)
{
    uint64_t id = next_range();
    record(NVTX_START, NULL, id, narrow(text), NULL);
    return id;
}
static uint64_t start_w(const wchar_t *text)
{
    char buffer[4 * MOST_WIDE];
    uint64_t id = next_range();
    record(NVTX_START, NULL, id, wide(text, buffer), NULL);
    return id;
}
static void end_range(uint64_t id) { record(NVTX_END, NULL, id, NO_TEXT, NULL); }
static int push_ex(const struct attributes *a)
{
    record_attributes(NVTX_PUSH, NULL, 0, a);
    return step_depth(NULL, 1);
}
static int push_a(const char *text)
{
    record(NVTX_PUSH, NULL, 0, narrow(text), NULL);
    return step_depth(NULL, 1);
}
static int push_w(const wchar_t *text)
{
    char buffer[4 * MOST_WIDE];
    record(NVTX_PUSH, NULL, 0, wide(text, buffer), NULL);
    return step_depth(NULL, 1);
}
static int pop(void)
{
    record(NVTX_POP, NULL, 0, NO_TEXT, NULL);
    return step_depth(NULL, -1);
}
static void category_a(uint32_t id, const char *text)
{
    record(NVTX_CATEGORY, NULL, id, narrow(text), NULL);
}
static void category_w(uint32_t id, const wchar_t *text)
{
    char buffer[4 * MOST_WIDE];
    record(NVTX_CATEGORY, NULL, id, wide(text, buffer), NULL);
}
static void thread_a(uint32_t id, const char *text)
{
    record(NVTX_THREAD, NULL, id, narrow(text), NULL);
}
static void thread_w(uint32_t id, const wchar_t *text)
{
    char buffer[4 * MOST_WIDE];
    record(NVTX_THREAD, NULL, id, wide(text, buffer), NULL);
}

static void domain_mark(struct domain *d, const struct attributes *a)
{
    record_attributes(NVTX_MARK, d, 0, a);
}
static uint64_t domain_start(struct domain *d, const struct attributes *a)
{
    uint64_t id = next_range();
    record_attributes(NVTX_START, d, id, a);
    return id;
}
static void domain_end(struct domain *d, uint64_t id) { record(NVTX_END, d, id, NO_TEXT, NULL); }
static int domain_push(struct domain *d, const struct attributes *a)
{
    record_attributes(NVTX_PUSH, d, 0, a);
    return step_depth(d, 1);
}
static int domain_pop(struct domain *d)
{
    record(NVTX_POP, d, 0, NO_TEXT, NULL);
    return step_depth(d, -1);
}
static void domain_category_a(struct domain *d, uint32_t id, const char *text)
{
    record(NVTX_CATEGORY, d, id, narrow(text), NULL);
}
static void domain_category_w(struct domain *d, uint32_t id, const wchar_t *text)
{
    char buffer[4 * MOST_WIDE];
    record(NVTX_CATEGORY, d, id, wide(text, buffer), NULL);
}
/* A registered text is kept until the process ends: events may name it at any time. */
static struct text *registered(struct text text)
{
    struct text *kept = malloc(sizeof *kept + text.length);
    if (!kept)
        return NULL;
    if (text.length)
        memcpy(kept + 1, text.bytes, text.length);
    kept->bytes = (const char *)(kept + 1);
    kept->length = text.length;
    return kept;
}
static struct text *register_a(struct domain *d, const char *text)
{
    (void)d;
    return registered(narrow(text));
}
static struct text *register_w(struct domain *d, const wchar_t *text)
{
    char buffer[4 * MOST_WIDE];
    (void)d;
    return registered(wide(text, buffer));
}
static struct domain *created(struct text name)
{
    struct domain *domain = malloc(sizeof *domain + name.length);
    if (!domain)
        return NULL;
    if (name.length)
        memcpy(domain->bytes, name.bytes, name.length);
    domain->name.bytes = domain->bytes;
    domain->name.length = name.length;
    domain->id = __atomic_add_fetch(&last_domain, 1, __ATOMIC_RELAXED);
    domain->next = __atomic_load_n(&domains, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(&domains, &domain->next, domain, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
        ;
    record(NVTX_DOMAIN, domain, domain->id, domain->name, NULL);
    return domain;
}
static void name_domains(void)
{
    struct domain *domain;
    for (domain = domains; domain; domain = domain->next)
        record_inside(NVTX_DOMAIN, domain, domain->id, domain->name, NULL);
}
void nvtx_repeat(void)
{
    nvtx_enter();
    name_domains();
    nvtx_leave();
}
static struct domain *create_a(const char *text) { return created(narrow(text)); }
static struct domain *create_w(const wchar_t *text)
{
    char buffer[4 * MOST_WIDE];
    return created(wide(text, buffer));
}

typedef void (*function)(void);
#define F (function)
static const function CORE[] = {
    NULL,      F mark_ex, F mark_a, F mark_w, F start_ex,   F start_a,    F start_w,  F end_range,
    F push_ex, F push_a,  F push_w, F pop,    F category_a, F category_w, F thread_a, F thread_w,
};
static const function CORE2[] = {
    NULL,       F domain_mark,       F domain_start,      F domain_end, F domain_push, F domain_pop,
    NULL, NULL, F domain_category_a, F domain_category_w, F register_a, F register_w,  F create_a,
    F create_w,
};

struct callbacks {
    size_t size;
    int (*module_table)(int module, function ***table, unsigned *size);
};

static void fill(const struct callbacks *callbacks, int module, const function *own, unsigned count)
{
    function **table = NULL;
    unsigned at, size = 0;
    if (!callbacks->module_table(module, &table, &size) || !table)
        return;
    for (at = 1; at < count && at < size; at++)
        if (own[at] && table[at])
            *table[at] = own[at];
}

int nvtx_fill(const void *(*export_table)(uint32_t))
{
    const struct callbacks *callbacks = export_table(TABLE_CALLBACKS);
    if (!callbacks || callbacks->size < sizeof *callbacks)
        return 0;
    fill(callbacks, MODULE_CORE, CORE, sizeof CORE / sizeof *CORE);
    fill(callbacks, MODULE_CORE2, CORE2, sizeof CORE2 / sizeof *CORE2);
    return 1;
}
