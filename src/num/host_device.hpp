// Code that runs on the host and on a CUDA device alike is written once, in headers *.inl.hpp, in C++17.
#pragma once

#if defined(__CUDACC__)
#define DRIFTBOUND_HD __host__ __device__
#else
#define DRIFTBOUND_HD
#endif
