#define _GNU_SOURCE
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MOST_FILES 1000
#define MOST_NOTES 64

_Atomic int output_is_on, output_has_failed;

static char folder[PATH_MAX - 64];
static int file = -1, has_folder, is_closed;
static uint32_t noted[MOST_NOTES], note_count; /* hashes of the notes in the file */
static pthread_mutex_t output_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread uint32_t own_thread;

uint64_t output_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint32_t output_thread(void)
{
    if (!own_thread)
        own_thread = (uint32_t)syscall(SYS_gettid);
    return own_thread;
}

/* Remember where the file shall be; 0: nowhere. It is created by the first record. */
int output_init(const char *given)
{
    has_folder = given && *given && strlen(given) < sizeof folder;
    if (has_folder)
        strcpy(folder, given);
    return has_folder;
}

int output_path(char path[PATH_MAX], const char *name)
{
    return snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX;
}

/* Leave a message for dlprof: an empty file, because its text could not be written to a full
   disk. A folder of NULL is that of the records. */
void output_message(const char *given, const char *name)
{
    char path[PATH_MAX];
    int message;
    if (snprintf(path, sizeof path, "%s/%s", given ? given : folder, name) >= (int)sizeof path)
        return;
    message = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (message >= 0)
        close(message);
}

/* Give up, and leave the reason. Whoever reads the file sees that it is incomplete, if there is no
   room even for the message. */
void output_fail(const char *what)
{
    char name[64];
    int reason = errno;
    if (output_has_failed++)
        return;
    output_is_on = 0;
    snprintf(name, sizeof name, "%s.%d.%d", what, (int)getpid(), reason);
    output_message(NULL, name);
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

void output_write_pair(uint32_t type, uint32_t record_bytes, const void *data, uint64_t bytes,
                       uint32_t next_type, const void *text, uint64_t text_bytes)
{
    struct chunk_header first = {type, record_bytes, bytes}, second = {next_type, 0, text_bytes};
    struct iovec parts[4] = {{&first, sizeof first},
                             {(void *)data, bytes},
                             {&second, sizeof second},
                             {(void *)text, text_bytes}};
    if (!has_folder || output_has_failed)
        return;
    pthread_mutex_lock(&output_lock);
    if (!is_closed && !output_has_failed
        && ((file < 0 && !open_file()) || !write_all(parts, next_type ? 4 : 2)))
        output_fail("problem");
    pthread_mutex_unlock(&output_lock);
}

void output_write(uint32_t type, uint32_t record_bytes, const void *data, uint64_t bytes)
{
    output_write_pair(type, record_bytes, data, bytes, 0, NULL, 0);
}

static int is_noted(const char *text)
{
    uint32_t hash = 2166136261u, at;
    int is_known = 0;
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * 16777619u;
    pthread_mutex_lock(&output_lock);
    for (at = 0; at < note_count; at++)
        is_known |= noted[at] == hash;
    if (!is_known && note_count < MOST_NOTES)
        noted[note_count++] = hash;
    else
        is_known = 1;
    pthread_mutex_unlock(&output_lock);
    return is_known;
}

/* Write a note, once: what fails may be tried again in each step of a program. */
void output_note(const char *name, const char *value)
{
    char text[1024];
    int length = snprintf(text, sizeof text, "%s\t%s", name, value);
    if (length > 0 && !is_noted(text))
        output_write(CHUNK_NOTE, 0, text,
                     (uint64_t)length < sizeof text ? (uint64_t)length : sizeof text - 1);
}

static void close_file(int is_last)
{
    pthread_mutex_lock(&output_lock);
    is_closed = is_last;
    if (file >= 0)
        close(file);
    file = -1;
    note_count = 0;
    pthread_mutex_unlock(&output_lock);
}

void output_close(void) { close_file(1); }

void output_next(void)
{
    close_file(0);
    output_has_failed = 0;
}

/* In a child: its file is not there yet. Another thread of the parent may have held the lock. */
void output_forget(void)
{
    pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    output_lock = unlocked;
    if (file >= 0)
        close(file);
    file = -1;
    own_thread = 0;
    output_is_on = output_has_failed = 0;
    is_closed = 0;
    note_count = 0;
}
