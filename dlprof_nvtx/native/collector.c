/* When the collection of this process begins and ends.

   DLPROF_COLLECT names a folder. The collection begins when a file `started` is there, with CUDA
   (see begin_with_cuda), or when the program says so, which may also end it and begin it again:
   each time is a window. It ends for good with a file `stopped` or with the process. */

#define _GNU_SOURCE
#include "collector.h"
#include "cupti.h"
#include "library.h"
#include "nvtx.h"
#include "output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#define FOLDER_VARIABLE "DLPROF_COLLECT"
#define REFERENCE_VARIABLE "DLPROF_REFERENCE"
#define FILES_VARIABLE "DLPROF_COLLECT_FILES" /* each window is a file of its own */
#define FLUSH_MS 1000
#define UNWATCHED_MS 50 /* How often a folder is read whose changes the system does not report. */
#define MOST_WAIT_S 2   /* Whatever becomes of CUPTI, the program stands still no longer. */

static char folder[PATH_MAX];
static _Atomic int is_initialized, has_folder;
static _Atomic int woken = -1, has_begun, must_end, is_finished;
static _Atomic int decides; /* whether the program itself has said when to record */
static int has_files;         /* whether each window is a file of its own */
static int is_later_file;     /* whether the process has written one before */
static struct window_record window; /* the one that is open, if it has a start */
static pthread_mutex_t control_lock = PTHREAD_MUTEX_INITIALIZER;

/* What the program asks the thread of the collector for, which alone calls CUPTI then. */
enum request { NOTHING, BEGIN, DETACH };
static pthread_mutex_t request_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t answered = PTHREAD_COND_INITIALIZER;
static struct {
    enum request request;
    int is_waited_for, has_answer, answer;
} asked; /* by one thread at a time */
static int has_thread;

static struct timespec limit(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_sec += MOST_WAIT_S;
    return time;
}

static void lock(void)
{
    nvtx_enter();
    pthread_mutex_lock(&control_lock);
}

/* The thread that has the lock may wait for CUPTI for ever; the program must go on. 0: it does. */
static int lock_in_time(void)
{
    struct timespec until = limit();
    nvtx_enter();
    if (!pthread_mutex_timedlock(&control_lock, &until))
        return 1;
    nvtx_leave();
    return 0;
}

static void unlock(void)
{
    pthread_mutex_unlock(&control_lock);
    nvtx_leave();
}

static void write_process(uint32_t type)
{
    struct timespec utc;
    struct process_record record;
    memset(&record, 0, sizeof record);
    clock_gettime(CLOCK_REALTIME, &utc);
    record.time_ns = output_now();
    record.utc_ns = (uint64_t)utc.tv_sec * 1000000000u + (uint64_t)utc.tv_nsec;
    record.pid = (uint32_t)getpid();
    record.cupti_version = library_version();
    record.dropped = cupti_dropped();
    output_write(type, sizeof record, &record, sizeof record);
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
        output_write(CHUNK_THREADS, 0, text, used);
}

static int is_there(const char *name)
{
    char path[PATH_MAX];
    return output_path(path, name) && access(path, F_OK) == 0;
}

static int is_started(void)
{
    return has_folder && !decides && is_there("started") && !cupti_watches_range();
}

static void end_at_exit(void);

static void open_window(void)
{
    memset(&window, 0, sizeof window);
    cupti_has_failed();
    window.start = output_now();
    output_write(CHUNK_WINDOW, sizeof window, &window, sizeof window);
    output_is_on = !output_has_failed;
}

/* End the window. Its record is in the file before CUPTI is detached. */
static void close_window(enum window_end how)
{
    int is_attached;
    if (!window.start)
        return;
    is_attached = cupti_stop(how == WINDOW_PROGRAM_ENDED ? CUPTI_AT_EXIT : CUPTI_DETACH);
    output_is_on = 0;
    window.end = output_now();
    window.ended_by = cupti_has_failed() ? WINDOW_FAILED : how;
    nvtx_flush();
    output_write(CHUNK_WINDOW, sizeof window, &window, sizeof window);
    if (is_attached && how != WINDOW_PROGRAM_ENDED)
        cupti_release();
    window.start = 0;
}

/* Begin to record, if it does not yet; 1: it records. The caller holds the lock. */
static int begin(void)
{
    enum cupti_attached attached;
    if (!has_folder || is_finished || output_has_failed)
        return 0;
    if (!has_begun) {
        has_begun = 1;
        write_process(CHUNK_PROCESS);
        if (is_later_file) {
            cupti_repeat();
            nvtx_repeat();
        }
    }
    attached = cupti_attach();
    if (attached == CUPTI_FAILED)
        return 0;
    if (!window.start)
        open_window();
    if (attached == CUPTI_ATTACHED)
        cupti_record(end_at_exit);
    return output_is_on;
}

static int locked_begin(void)
{
    int is_recording;
    lock();
    is_recording = begin();
    unlock();
    return is_recording;
}

static void complete_file(void)
{
    nvtx_end();
    write_thread_names();
    write_process(CHUNK_END);
}

/* End the window, and its file where each has one. */
static void leave(enum window_end how)
{
    lock();
    close_window(how);
    if (has_files && has_begun) {
        complete_file();
        output_next();
        has_begun = 0;
        is_later_file = 1;
    }
    unlock();
}

/* Record no more, and complete the file. A file that could not be written is not complete. */
static void end(enum window_end how)
{
    char name[32];
    static _Atomic int is_stuck;
    if (is_stuck || !lock_in_time()) {
        is_stuck = 1;
        return;
    }
    if (!is_finished && has_begun) {
        close_window(how);
        complete_file();
        is_finished = 1;
        output_close();
        snprintf(name, sizeof name, "complete.%d", (int)getpid());
        if (!output_has_failed)
            output_message(NULL, name);
    }
    unlock();
}

static void end_at_exit(void)
{
    end(WINDOW_PROGRAM_ENDED);
}

static void wake(void)
{
    uint64_t one = 1;
    if (woken >= 0 && write(woken, &one, sizeof one) < 0)
        return; /* The thread looks at its next turn. */
}

/* The program calls cudaProfilerStart, and -Stop: CUPTI may not be detached inside its callback, so
   the thread of the collector ends the window. */
static void on_range(int is_start)
{
    if (is_start) {
        locked_begin();
        return;
    }
    output_is_on = 0;
    must_end = 1;
    wake();
}

static int detach(void)
{
    leave(WINDOW_DETACHED);
    return 1;
}

/* Do what the program has asked for. If it has not waited for the answer, it knows of no window. */
static void do_request(void)
{
    enum request request;
    int result;
    pthread_mutex_lock(&request_lock);
    request = asked.request;
    pthread_mutex_unlock(&request_lock);
    if (request == NOTHING)
        return;
    result = request == BEGIN ? locked_begin() : detach();
    pthread_mutex_lock(&request_lock);
    while (request == BEGIN && result && !asked.is_waited_for) {
        pthread_mutex_unlock(&request_lock);
        result = !detach();
        pthread_mutex_lock(&request_lock);
    }
    asked.has_answer = 1;
    asked.answer = result;
    asked.request = NOTHING;
    pthread_cond_broadcast(&answered);
    pthread_mutex_unlock(&request_lock);
}

/* Ask the thread of the collector, and wait for it, but not for ever. */
static int ask(enum request request)
{
    struct timespec until = limit();
    int result = 0, is_late = 0;
    pthread_mutex_lock(&request_lock);
    /* One asks after the other. Where none waits for what was asked, CUPTI hangs: why wait again? */
    while (asked.is_waited_for && has_thread && !is_late)
        is_late = pthread_cond_timedwait(&answered, &request_lock, &until);
    if (asked.request == NOTHING && !asked.is_waited_for && has_thread) {
        asked.request = request;
        asked.is_waited_for = 1;
        asked.has_answer = 0;
        wake();
        while (!asked.has_answer && has_thread && !is_late)
            is_late = pthread_cond_timedwait(&answered, &request_lock, &until);
        asked.is_waited_for = 0;
        result = asked.has_answer && asked.answer;
        pthread_cond_broadcast(&answered);
    }
    pthread_mutex_unlock(&request_lock);
    return result;
}

/* Begin with CUDA in a process that has no markers to decide, for this process alone. One with
   markers times steps first, and has left a message; see dlprof_nvtx/baseline_timing.py. Without their
   folder, dlprof says when to begin. */
static void begin_with_cuda(void)
{
    const char *given = getenv(REFERENCE_VARIABLE);
    char path[PATH_MAX], name[32];
    if (!given || !*given || !has_folder || has_begun || has_files)
        return;
    if (snprintf(path, sizeof path, "%s/hold.%d", given, (int)getpid()) >= (int)sizeof path
        || access(path, F_OK) == 0)
        return;
    snprintf(name, sizeof name, "began.%d", (int)getpid());
    output_message(given, name);
    locked_begin();
}

/* Sleep until something new is in the folder, the collection ends, or it is time to flush. */
static void wait_for_change(int watch)
{
    char events[4096];
    struct pollfd files[] = {{woken, POLLIN, 0}, {watch, POLLIN, 0}};
    poll(files, 2, watch < 0 ? UNWATCHED_MS : FLUSH_MS);
    if (woken >= 0 && read(woken, events, sizeof(uint64_t)) < 0)
        events[0] = 0; /* It was not woken. */
    while (watch >= 0 && read(watch, events, sizeof events) > 0)
        ;
}

/* The thread of the collector. It sleeps while nothing is recorded: steps are timed meanwhile. */
static void *control(void *unused)
{
    uint64_t flushed = output_now();
    int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    (void)unused;
    pthread_setname_np(pthread_self(), "dlprof-collect");
    if (watch >= 0 && inotify_add_watch(watch, folder, IN_CREATE | IN_MOVED_TO) < 0) {
        close(watch);
        watch = -1;
    }
    while (!is_finished) {
        do_request();
        /* With the records nothing is gained any more, and the program shall run at its own speed. */
        if (has_files && output_has_failed)
            leave(WINDOW_FAILED);
        if (has_begun && output_has_failed)
            end(WINDOW_FAILED);
        if (output_has_failed)
            break;
        if (!has_begun && is_started())
            locked_begin();
        if (has_begun && (must_end || is_there("stopped"))) {
            end(WINDOW_STOPPED);
            continue;
        }
        wait_for_change(watch);
        if (output_is_on && output_now() - flushed >= FLUSH_MS * 1000000ull) {
            flushed = output_now();
            nvtx_flush();
            cupti_describe();
        }
    }
    if (watch >= 0)
        close(watch);
    pthread_mutex_lock(&request_lock);
    has_thread = 0;
    pthread_cond_broadcast(&answered);
    pthread_mutex_unlock(&request_lock);
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
    woken = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    has_thread = 1;
    errno = pthread_create(&thread, &attributes, control, NULL);
    if (errno) {
        has_thread = 0;
        output_fail("problem");
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* A child without a program of its own begins anew: it has one thread, and no CUPTI. */
static void forget(void)
{
    pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t fresh = PTHREAD_COND_INITIALIZER;
    control_lock = request_lock = unlocked;
    answered = fresh;
    memset(&asked, 0, sizeof asked);
    has_thread = 0;
    if (woken >= 0)
        close(woken);
    woken = -1;
    is_initialized = 0;
    is_finished = has_begun = must_end = decides = is_later_file = 0;
    window.start = 0;
    output_forget();
    nvtx_forget();
    cupti_forget();
}

static void init_once(void)
{
    static int is_registered;
    const char *given = getenv(FOLDER_VARIABLE);
    lock();
    if (!is_initialized) {
        has_folder = output_init(given);
        if (has_folder) {
            snprintf(folder, sizeof folder, "%s", given);
            has_files = getenv(FILES_VARIABLE) != NULL;
            if (!is_registered) {
                is_registered = 1;
                pthread_atfork(NULL, NULL, forget);
                atexit(end_at_exit);
            }
            start_control();
        }
        is_initialized = 1;
    }
    unlock();
    /* The thread of the collector may begin just now: what follows here must be recorded. */
    if (is_started() && lock_in_time()) {
        begin();
        unlock();
    }
}

/* Called by each thread at its first event: it must not wait for who waits for CUPTI. */
static void init(void)
{
    if (!is_initialized)
        init_once();
    else if (!has_begun && is_started())
        locked_begin();
}

int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t))
{
    nvtx_init(init);
    init();
    return nvtx_fill(export_table);
}

int InitializeInjection(void)
{
    init();
    begin_with_cuda();
    cupti_init();
    if (output_is_on) {
        /* Without the lock: another thread may hold it, and wait for CUDA. */
        if (cupti_attach() == CUPTI_ATTACHED)
            cupti_record(end_at_exit);
    } else if (has_folder && cupti_watches_range())
        cupti_watch_range(on_range);
    return 1;
}

int dlprof_collector_begin(void)
{
    decides = 1;
    init();
    return ask(BEGIN);
}

int dlprof_collector_detach(void)
{
    decides = 1;
    init();
    return !has_folder || is_finished || ask(DETACH);
}
