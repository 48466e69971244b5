#pragma once

#include <string>

#include "driftbound/evaluate/probe.hpp"

namespace driftbound::cli {

/// cblas_sgemm of a shared library, by its file name as the loader takes it.
/// Throws:    NotAvailable where the library or the function is missing
ProductCall blas_kernel(const std::string& library);

/// Products by the program at the other ends of standard output and input: it gets one line of JSON, then A and B (of
/// sums A alone) as raw float32, little-endian, row-major, and answers with the raw float32 of C.
/// Throws:    when called: InvalidArgument where it ends before it has answered
ProductCall exchanged_product();
SumCall exchanged_sum();
/// No more requests: the other program reads the end of its input, and what follows on standard output goes to standard
/// error.
void end_exchange();

}  // namespace driftbound::cli
