/* Attaches CUPTI to the process, which then records its CUDA activity, and detaches it. */

#ifndef DLPROF_CUPTI_H
#define DLPROF_CUPTI_H

#include <stdint.h>

enum cupti_attached {
    CUPTI_FAILED = -1,
    CUPTI_NOTHING_TO_DO, /* CUDA is not initialized yet, or CUPTI is attached already */
    CUPTI_ATTACHED       /* cupti_record must follow */
};

enum cupti_detach {
    CUPTI_AT_EXIT, /* the program ends: write what there is, and leave CUPTI as it is */
    CUPTI_DETACH   /* the program runs on, at its own speed */
};

/* CUDA is initialized. */
void cupti_init(void);
enum cupti_attached cupti_attach(void);
/* Record from now on. `at_exit` is registered for the end of the program, after what CUPTI
   registers itself when it is enabled and when it needs its first buffer. */
void cupti_record(void (*at_exit)(void));
/* Record no more; what was recorded is written. 1: something was recorded. */
int cupti_stop(enum cupti_detach how);
/* Take CUPTI out of the process, after cupti_stop. */
void cupti_release(void);
/* Whether CUPTI could not be used since the last call. */
int cupti_has_failed(void);

/* Call `on_range` when the program calls cudaProfilerStart (1) and -Stop (0). */
int cupti_watches_range(void);
void cupti_watch_range(void (*on_range)(int is_start));

/* Write the devices, once CUDA is initialized. */
void cupti_describe(void);
/* Write again what a file needs that is not the first one of the process. */
void cupti_repeat(void);
uint64_t cupti_dropped(void);
void cupti_forget(void);

#endif
