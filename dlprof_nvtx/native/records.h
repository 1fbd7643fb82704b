/* The file of one process: its chunks and records.

   The file begins with MAGIC; then come chunks: a header, and records of one type and size, or
   text. aggregator/sources/collector/records.py reads it. All numbers are in the byte order of the
   machine, all times in ns of CLOCK_MONOTONIC. A file that ends in the middle of a chunk is valid
   up to it. */

#ifndef DLPROF_RECORDS_H
#define DLPROF_RECORDS_H

#include <stdint.h>

#define MAGIC "DLPROFC1"

enum chunk_type {
    CHUNK_PROCESS = 1, /* struct process_record */
    CHUNK_STRING,      /* uint32 id, then the text */
    CHUNK_API,
    CHUNK_KERNEL,
    CHUNK_COPY,
    CHUNK_SET,
    CHUNK_SYNC,
    CHUNK_EVENT,
    CHUNK_OVERHEAD,
    CHUNK_GRAPH_NODE,
    CHUNK_NVTX,      /* struct nvtx_record */
    CHUNK_NVTX_TEXT, /* the texts of the chunk before it, joined */
    CHUNK_DEVICES,   /* lines: ordinal, UUID, ... separated by tabs */
    CHUNK_THREADS,   /* lines: thread id, name */
    CHUNK_NOTE,      /* name, tab, value */
    CHUNK_END,       /* struct process_record: the file is complete */
    CHUNK_WINDOW     /* struct window_record: once when it begins, once when it ends */
};

struct chunk_header {
    uint32_t type, record_bytes; /* record_bytes 0: text */
    uint64_t bytes;
};

struct process_record {
    uint64_t time_ns, utc_ns; /* the same moment, by both clocks */
    uint32_t pid, cupti_version;
    uint64_t dropped; /* records that CUPTI could not store */
};

enum window_end {
    WINDOW_OPEN, /* it has only begun */
    WINDOW_DETACHED,
    WINDOW_STOPPED, /* by dlprof, or by cudaProfilerStop */
    WINDOW_PROGRAM_ENDED,
    WINDOW_FAILED /* CUPTI could not be attached: it has ranges only */
};

/* A time in which the process was recorded. What CUPTI recorded in it is in the file between the
   two records. CUPTI may number calls and synchronizations from 1 again in each. */
struct window_record {
    uint64_t start, end; /* end 0: it has only begun */
    uint32_t ended_by, unused;
};

struct api_record {
    uint64_t start, end;
    uint32_t thread, correlation, name;
    int32_t result;
    uint32_t is_driver, unused;
};

struct kernel_record {
    uint64_t start, end, graph_node;
    uint32_t device, context, stream, correlation, name, graph;
    int32_t grid[3], block[3];
    int32_t static_bytes, dynamic_bytes; /* shared memory */
    uint32_t registers, launch_type;
};

struct memory_record { /* a copy or a set */
    uint64_t start, end, graph_node, bytes;
    uint32_t device, context, stream, correlation, graph;
    uint8_t copy_kind, source, target, is_async;
};

struct sync_record {
    uint64_t start, end, event_sync;
    uint32_t type, correlation, context, stream, event, unused;
};

struct event_record {
    uint64_t event_sync;
    uint32_t correlation, context, stream, event;
};

struct overhead_record {
    uint64_t start, end;
    uint32_t kind, thread;
};

struct graph_node_record {
    uint64_t time, node, original; /* original 0: not copied from another node */
    uint32_t thread, unused;
};

enum nvtx_kind {
    NVTX_PUSH = 1,
    NVTX_POP,
    NVTX_START,
    NVTX_END,
    NVTX_MARK,
    NVTX_DOMAIN,      /* id: number of the domain; text: its name */
    NVTX_CATEGORY,    /* id: number of the category; text: its name */
    NVTX_THREAD,      /* id: thread; text: its name */
    NVTX_ATTRIBUTES   /* of the next record of the thread; id: payload; time: category | type << 32 */
};

struct nvtx_record {
    uint64_t time, id; /* id of a started range: joins its end to it */
    uint32_t domain, thread, text_bytes, kind;
};

#endif
