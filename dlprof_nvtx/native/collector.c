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
#define FLUSH_MS 1000
#define UNWATCHED_MS 50 /* How often a folder is read whose changes the system does not report. */

static char folder[PATH_MAX];
static int is_initialized, has_folder;
static _Atomic int ended = -1, has_begun, must_end, is_finished;
static _Atomic int decides; /* whether the program itself has said when to record */
static struct window_record window; /* the one that is open, if it has a start */
static pthread_mutex_t control_lock = PTHREAD_MUTEX_INITIALIZER;

static void lock(void)
{
    nvtx_enter();
    pthread_mutex_lock(&control_lock);
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

static int must_begin(void)
{
    return !has_begun && !decides && is_there("started") && !cupti_watches_range();
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

/* Record no more, and complete the file. A file that could not be written is not complete. */
static void end(enum window_end how)
{
    char name[32];
    lock();
    if (!is_finished && has_begun) {
        close_window(how);
        nvtx_end();
        write_thread_names();
        write_process(CHUNK_END);
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

/* The program calls cudaProfilerStart, and -Stop: CUPTI may not be detached inside its callback, so
   the thread of the collector ends the window. */
static void on_range(int is_start)
{
    uint64_t one = 1;
    if (is_start) {
        locked_begin();
        return;
    }
    output_is_on = 0;
    must_end = 1;
    if (ended >= 0 && write(ended, &one, sizeof one) < 0)
        return; /* The thread sees it at its next turn. */
}

/* Begin with CUDA in a process that has no markers to decide, for this process alone. One with
   markers times steps first, and has left a message; see dlprof_nvtx/reference.py. Without their
   folder, dlprof says when to begin. */
static void begin_with_cuda(void)
{
    const char *given = getenv(REFERENCE_VARIABLE);
    char path[PATH_MAX], name[32];
    if (!given || !*given || !has_folder || has_begun)
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
    struct pollfd files[] = {{ended, POLLIN, 0}, {watch, POLLIN, 0}};
    poll(files, 2, watch < 0 ? UNWATCHED_MS : FLUSH_MS);
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
        /* With the records nothing is gained any more, and the program shall run at its own speed. */
        if (has_begun && output_has_failed)
            end(WINDOW_FAILED);
        if (output_has_failed)
            break;
        if (must_begin())
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
    errno = pthread_create(&thread, &attributes, control, NULL);
    if (errno)
        output_fail("problem");
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* A child without a program of its own begins anew: it has one thread, and no CUPTI. */
static void forget(void)
{
    pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    control_lock = unlocked;
    if (ended >= 0)
        close(ended);
    ended = -1;
    is_initialized = 0;
    is_finished = has_begun = must_end = decides = 0;
    window.start = 0;
    output_forget();
    nvtx_forget();
    cupti_forget();
}

static void init(void)
{
    static int is_registered;
    int is_first;
    lock();
    is_first = !is_initialized;
    if (is_first) {
        const char *given = getenv(FOLDER_VARIABLE);
        is_initialized = 1;
        has_folder = output_init(given);
        if (has_folder) {
            snprintf(folder, sizeof folder, "%s", given);
            if (!is_registered) {
                is_registered = 1;
                pthread_atfork(NULL, NULL, forget);
                atexit(end_at_exit);
            }
            start_control();
        }
    }
    unlock();
    if (has_folder && must_begin())
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
    return locked_begin();
}

int dlprof_collector_detach(void)
{
    decides = 1;
    init();
    lock();
    close_window(WINDOW_DETACHED);
    unlock();
    return 1;
}
