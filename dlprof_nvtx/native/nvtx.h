/* Receives NVTX events: what a program, PyTorch or any library writes through NVTX's headers.

   NVTX loads the library that NVTX_INJECTION64_PATH names at its first call, and hands over tables
   of function pointers to fill in; the numbers of the functions are part of its public interface. */

#ifndef DLPROF_NVTX_H
#define DLPROF_NVTX_H

#include <stdint.h>

/* Call `hook` at the first event of each thread: a child must begin a file of its own. */
void nvtx_init(void (*hook)(void));
/* Fill in the tables of a library; 0: it is of an unknown version. */
int nvtx_fill(const void *(*export_table)(uint32_t));
/* Write the events of all threads. */
void nvtx_flush(void);
/* The same, and what is missing, before the file ends. */
void nvtx_end(void);
/* Write again what a file needs that is not the first one of the process. */
void nvtx_repeat(void);
void nvtx_forget(void);
/* Around what holds locks: events of a handler that interrupts it are not recorded. */
void nvtx_enter(void);
void nvtx_leave(void);

#endif
