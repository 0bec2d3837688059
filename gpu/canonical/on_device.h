#pragma once
// For functions of the canonical arithmetic that the CUDA compiler builds for GPUs too; nothing for
// other compilers.
//   ES_HD      before a function: for the host and for GPUs
//   ES_UNROLL  before a loop of fixed length over an array that shall stay in a GPU's registers
#ifdef __CUDACC__
#define ES_HD __host__ __device__
#define ES_UNROLL _Pragma("unroll")
#else
#define ES_HD
#define ES_UNROLL
#endif
