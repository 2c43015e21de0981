// Records what a program computes on an NVIDIA GPU, and when, with NVIDIA's CUPTI. CUDA loads this library into the program
// itself; tests/peer/trace.py reads the file that it writes. See README.md, "Where the time goes".
//
// A line begins with N, a number and a name; K, a kernel: its start and length in ns, the number of its name, its grid; C, a
// copy: start, length, kind (1 to the GPU, 2 to the host, 8 within), bytes; S, memory that is set: start, length, bytes; A, a
// call of the host: start, length, number of its name.
//
// Variables of the environment: TRACE_OUT, the file (trace.txt); TRACE_CALLS=1, the calls of the host too, which takes time.

#include <cupti.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES 4096

static FILE * out;
static char * names[NAMES];
static int    name_count;

// The number of a name, which is written the first time; -1 where there are too many.
static int number_of(const char * name) {
    if (name == NULL) {
        name = "?";
    }
    for (int i = 0; i < name_count; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    if (name_count == NAMES) {
        return -1;
    }
    names[name_count] = strdup(name);
    fprintf(out, "N %d %s\n", name_count, name);
    return name_count++;
}

static void write_record(const CUpti_Activity * record) {
    switch (record->kind) {
        case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
            const CUpti_ActivityKernel9 * kernel = (const void *) record;
            const int                     name   = number_of(kernel->name);
            fprintf(out, "K %llu %llu %d %d %d %d\n", (unsigned long long) kernel->start,
                    (unsigned long long) (kernel->end - kernel->start), name, kernel->gridX, kernel->gridY, kernel->gridZ);
            break;
        }
        case CUPTI_ACTIVITY_KIND_MEMCPY: {
            const CUpti_ActivityMemcpy5 * copy = (const void *) record;
            fprintf(out, "C %llu %llu %d %llu\n", (unsigned long long) copy->start,
                    (unsigned long long) (copy->end - copy->start), copy->copyKind, (unsigned long long) copy->bytes);
            break;
        }
        case CUPTI_ACTIVITY_KIND_MEMSET: {
            const CUpti_ActivityMemset4 * set = (const void *) record;
            fprintf(out, "S %llu %llu %llu\n", (unsigned long long) set->start, (unsigned long long) (set->end - set->start),
                    (unsigned long long) set->bytes);
            break;
        }
        case CUPTI_ACTIVITY_KIND_RUNTIME: {
            const CUpti_ActivityAPI * call = (const void *) record;
            const char *              name = NULL;
            cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, call->cbid, &name);
            const int number = number_of(name);
            fprintf(out, "A %llu %llu %d\n", (unsigned long long) call->start, (unsigned long long) (call->end - call->start),
                    number);
            break;
        }
        default:
            break;
    }
}

static void CUPTIAPI give_buffer(uint8_t ** buffer, size_t * bytes, size_t * records) {
    *bytes   = 8 << 20;
    *buffer  = aligned_alloc(8, *bytes);
    *records = 0;
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t * buffer, size_t bytes, size_t used) {
    (void) context, (void) stream, (void) bytes;
    CUpti_Activity * record = NULL;
    while (cuptiActivityGetNextRecord(buffer, used, &record) == CUPTI_SUCCESS) {
        write_record(record);
    }
    free(buffer);
}

static void end(void) {
    cuptiActivityFlushAll(1);
    fclose(out);
}

// Called by CUDA when the program first uses it.
int InitializeInjection(void) {
    const char * path = getenv("TRACE_OUT");
    out               = fopen(path != NULL ? path : "trace.txt", "w");
    if (out == NULL) {
        perror("the trace");
        return 0;
    }
    cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET);
    if (getenv("TRACE_CALLS") != NULL) {
        cuptiActivityEnable(CUPTI_ACTIVITY_KIND_RUNTIME);
    }
    atexit(end);
    return 1;
}
