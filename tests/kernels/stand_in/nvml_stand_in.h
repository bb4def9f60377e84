/* The answers of the stand-in for NVIDIA's management library; its one GPU, "GPU-stand-in", is also the first
 * one of the CUDA simulator. A process sets them here or by the environment. */
#ifndef ANNEAL_TESTS_NVML_STAND_IN_H
#define ANNEAL_TESTS_NVML_STAND_IN_H

struct nvml_stand_in {
    int start;            /* what nvmlInit_v2 returns */
    int failing;          /* the code that every query returns */
    int failing_graphics; /* the code that the query for graphics processes returns */
    unsigned pid;         /* of a process that computes and draws, with 3 GiB */
    unsigned more;        /* processes that compute, numbers from 500001 on, of 1, 2, 3 ... MiB */
    unsigned unknown;     /* pid of a process whose bytes are unknown; 0: none */
    unsigned instances;   /* of a GPU that the process `pid` holds its memory in */
    unsigned long long reasons;
    int opened;  /* nvmlInit_v2 less nvmlShutdown */
    int hanging; /* a file: the query for power returns when something can be read from it */
};

/* With ANNEAL_STAND_IN_PID="4711", that process holds 40 MiB of the GPU; with "own" the calling one. */
#define NVML_STAND_IN_PID "ANNEAL_STAND_IN_PID"

#endif
