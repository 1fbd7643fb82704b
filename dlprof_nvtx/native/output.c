/* The file of records, and when the collection begins and ends.

   DLPROF_COLLECT names a folder. The collection begins when a file `started` is there, and ends
   with a file `stopped` or with the process. */

#define _GNU_SOURCE
#include "collector.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define FOLDER_VARIABLE "DLPROF_COLLECT"
#define REFERENCE_VARIABLE "DLPROF_REFERENCE"
#define FLUSH_MS 1000
#define UNWATCHED_MS 50 /* How often a folder is read whose changes the system does not report. */
#define MOST_FILES 1000

int collector_is_on, collector_has_failed;

static char folder[PATH_MAX - 64];
static int file = -1, ended = -1, has_folder, is_initialized, is_finished, has_begun, must_end;
static pthread_mutex_t output_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t control_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread uint32_t own_thread;

uint64_t collector_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint32_t collector_thread(void)
{
    if (!own_thread)
        own_thread = (uint32_t)syscall(SYS_gettid);
    return own_thread;
}

/* Leave a message for dlprof; there is no other place to report that this fails. */
static void leave_file(const char *name, const char *text)
{
    char path[PATH_MAX];
    int message;
    snprintf(path, sizeof path, "%s/%s.%d", folder, name, (int)getpid());
    message = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (message < 0)
        return;
    if (write(message, text, strlen(text)) < 0)
        unlink(path);
    close(message);
}

static void note_failure(const char *what)
{
    char text[256];
    snprintf(text, sizeof text, "%s: %s", what, strerror(errno));
    collector_has_failed = 1;
    collector_is_on = 0;
    leave_file("problem", text);
}

static int write_all(struct iovec *parts, int count)
{
    while (count) {
        ssize_t written = writev(file, parts, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return 0;
        while (count && (size_t)written >= parts->iov_len) {
            written -= (ssize_t)parts->iov_len;
            parts++, count--;
        }
        if (count) {
            parts->iov_base = (char *)parts->iov_base + written;
            parts->iov_len -= (size_t)written;
        }
    }
    return 1;
}

static int open_file(void)
{
    char path[PATH_MAX];
    struct iovec magic = {(void *)MAGIC, sizeof MAGIC - 1};
    int number;
    /* A process that replaced its program has a file of each. */
    for (number = 0; number < MOST_FILES; number++) {
        snprintf(path, sizeof path, "%s/%d-%d.records", folder, (int)getpid(), number);
        file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_APPEND, 0600);
        if (file >= 0)
            return write_all(&magic, 1);
        if (errno != EEXIST)
            return 0;
    }
    return 0;
}

void collector_write_pair(uint32_t type, uint32_t record_bytes, const void *data, uint64_t bytes,
                          uint32_t next_type, const void *text, uint64_t text_bytes)
{
    struct chunk_header first = {type, record_bytes, bytes}, second = {next_type, 0, text_bytes};
    struct iovec parts[4] = {{&first, sizeof first},
                             {(void *)data, bytes},
                             {&second, sizeof second},
                             {(void *)text, text_bytes}};
    if (!has_folder || collector_has_failed)
        return;
    pthread_mutex_lock(&output_lock);
    if (!is_finished && !collector_has_failed
        && ((file < 0 && !open_file()) || !write_all(parts, next_type ? 4 : 2)))
        note_failure("the records could not be written");
    pthread_mutex_unlock(&output_lock);
}

void collector_write(uint32_t type, uint32_t record_bytes, const void *data, uint64_t bytes)
{
    collector_write_pair(type, record_bytes, data, bytes, 0, NULL, 0);
}

void collector_note(const char *name, const char *value)
{
    char text[1024];
    int length = snprintf(text, sizeof text, "%s\t%s", name, value);
    if (length > 0)
        collector_write(CHUNK_NOTE, 0, text,
                        (uint64_t)length < sizeof text ? (uint64_t)length : sizeof text - 1);
}

static void write_process(uint32_t type)
{
    struct timespec utc;
    struct process_record record;
    memset(&record, 0, sizeof record);
    clock_gettime(CLOCK_REALTIME, &utc);
    record.time_ns = collector_now();
    record.utc_ns = (uint64_t)utc.tv_sec * 1000000000u + (uint64_t)utc.tv_nsec;
    record.pid = (uint32_t)getpid();
    record.cupti_version = cupti_version();
    record.dropped = cupti_dropped();
    collector_write(type, sizeof record, &record, sizeof record);
}

static void write_thread_names(void)
{
    static char text[1 << 16];
    char path[300];
    size_t used = 0;
    struct dirent *entry;
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks)
        return;
    while ((entry = readdir(tasks)) && used < sizeof text - 64) {
        char name[64];
        ssize_t length;
        int comm;
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        comm = open(path, O_RDONLY | O_CLOEXEC);
        if (comm < 0)
            continue;
        length = read(comm, name, sizeof name - 1);
        close(comm);
        if (length <= 0)
            continue;
        name[length - (name[length - 1] == '\n')] = 0;
        used += (size_t)snprintf(text + used, sizeof text - used, "%.16s\t%.32s\n", entry->d_name,
                                 name);
    }
    closedir(tasks);
    if (used)
        collector_write(CHUNK_THREADS, 0, text, used);
}

static int is_there(const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

/* Begin to record. Calling it again has no effect; `cupti_begin` waits for CUDA by itself. */
void collector_begin(void)
{
    pthread_mutex_lock(&control_lock);
    if (has_folder && !has_begun && !is_finished && !collector_has_failed) {
        has_begun = 1;
        write_process(CHUNK_PROCESS);
        collector_is_on = !collector_has_failed;
        cupti_begin();
    }
    pthread_mutex_unlock(&control_lock);
}

/* Record no more; the file is completed soon, by another thread. */
void collector_stop(void)
{
    uint64_t one = 1;
    collector_is_on = 0;
    must_end = 1;
    if (ended >= 0 && write(ended, &one, sizeof one) < 0)
        return; /* The thread sees it at its next turn. */
}

/* Record no more, and complete the file. */
void collector_end(void)
{
    pthread_mutex_lock(&control_lock);
    if (!is_finished && has_begun) {
        cupti_end();
        collector_is_on = 0;
        nvtx_flush();
        write_thread_names();
        write_process(CHUNK_END);
        pthread_mutex_lock(&output_lock);
        is_finished = 1;
        if (file >= 0)
            close(file);
        file = -1;
        pthread_mutex_unlock(&output_lock);
        leave_file("complete", "");
    }
    pthread_mutex_unlock(&control_lock);
}

/* Begin with CUDA, unless a process holds the collection to time steps without it first; see
   dlprof_nvtx/reference.py. Without such a folder, dlprof says when to begin. */
void collector_begin_with_cuda(void)
{
    const char *given = getenv(REFERENCE_VARIABLE);
    char path[PATH_MAX];
    struct dirent *entry;
    int is_held = 0, message;
    DIR *messages = given && has_folder && !has_begun ? opendir(given) : NULL;
    if (!messages)
        return;
    while ((entry = readdir(messages)))
        is_held |= !strncmp(entry->d_name, "hold.", 5);
    closedir(messages);
    if (is_held)
        return;
    snprintf(path, sizeof path, "%s/start.%d", given, (int)getpid());
    message = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (message >= 0)
        close(message);
    collector_begin();
}

/* Sleep until something new is in the folder, the collection ends, or it is time to flush. */
static void wait_for_change(int watch)
{
    char events[4096];
    struct pollfd files[] = {{ended, POLLIN, 0}, {watch, POLLIN, 0}};
    poll(files, 2, watch < 0 ? UNWATCHED_MS : FLUSH_MS);
    while (watch >= 0 && read(watch, events, sizeof events) > 0)
        ;
}

/* The thread of the collector. It sleeps while nothing is recorded: steps are timed meanwhile. */
static void *control(void *unused)
{
    uint64_t flushed = collector_now();
    int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    (void)unused;
    pthread_setname_np(pthread_self(), "dlprof-collect");
    if (watch >= 0 && inotify_add_watch(watch, folder, IN_CREATE | IN_MOVED_TO) < 0) {
        close(watch);
        watch = -1;
    }
    while (!is_finished && !collector_has_failed) {
        if (!has_begun && is_there("started") && !cupti_watches_range())
            collector_begin();
        if (has_begun && (must_end || is_there("stopped")))
            collector_end();
        else {
            wait_for_change(watch);
            if (has_begun && collector_now() - flushed >= FLUSH_MS * 1000000ull) {
                flushed = collector_now();
                nvtx_flush();
                cupti_describe();
            }
        }
    }
    if (watch >= 0)
        close(watch);
    return NULL;
}

static void start_control(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    /* Signals are for the threads of the program. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    ended = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (pthread_create(&thread, &attributes, control, NULL))
        note_failure("no thread could be started");
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* A child without a program of its own begins anew: it has one thread, and no CUPTI. */
static void forget(void)
{
    pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    output_lock = control_lock = unlocked;
    if (file >= 0)
        close(file);
    file = -1;
    if (ended >= 0)
        close(ended);
    ended = -1;
    own_thread = 0;
    collector_is_on = collector_has_failed = is_initialized = is_finished = has_begun = 0;
    must_end = 0;
    nvtx_forget();
    cupti_forget();
}

void collector_init(void)
{
    static int is_registered;
    const char *given;
    pthread_mutex_lock(&control_lock);
    if (!is_initialized) {
        is_initialized = 1;
        given = getenv(FOLDER_VARIABLE);
        has_folder = given && *given && strlen(given) < sizeof folder;
        if (has_folder) {
            strcpy(folder, given);
            if (!is_registered) {
                is_registered = 1;
                pthread_atfork(NULL, NULL, forget);
                atexit(collector_end);
            }
            start_control();
        }
    }
    pthread_mutex_unlock(&control_lock);
    if (has_folder && is_there("started") && !cupti_watches_range())
        collector_begin();
}

/* For the program itself: begin before this returns. */
__attribute__((visibility("default"))) void dlprof_collector_begin(void)
{
    collector_init();
    collector_begin();
}
