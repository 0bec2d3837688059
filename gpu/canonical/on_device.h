#pragma once
// For functions of the canonical arithmetic that the CUDA compiler also builds for GPUs. The macros
// are empty for other compilers.
//   ES_HD      before a function: it exists for the host and for GPUs
//   ES_UNROLL  before a loop of fixed length over an array that must stay in a GPU's registers
#ifdef __CUDACC__
#define ES_HD __host__ __device__
#define ES_UNROLL _Pragma("unroll")
#else
#define ES_HD
#define ES_UNROLL
#endif
