#pragma once
// launch() queues a kernel (block.h). The kernel sources (kernels/*.cu) are compiled twice: by the
// CUDA compiler for GPUs, and as C++ for host threads. Each copy lives in a namespace of its own,
// ES_CUDA_SPACE, so one program may contain both.
#ifdef __CUDACC__
#define ES_CUDA_SPACE on_gpu
#include "gpu/cuda/launch_gpu.h"
#else
#define ES_CUDA_SPACE on_host
#include "gpu/cuda/launch_host.h"
#endif
