#include "cli/probe_kernels.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <csignal>
#include <cstdio>
#include <limits>

#include "driftbound/num/errors.hpp"

namespace driftbound::cli {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are exchanged as they lie in memory");

/// cblas.h: order, whether A and B are transposed, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc.
using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);

void send(const std::string& line, std::span<const float> a, std::span<const float> b) {
  bool is_sent = std::fwrite(line.data(), 1, line.size(), stdout) == line.size();
  for (const std::span<const float> numbers : {a, b})
    is_sent = is_sent && std::fwrite(numbers.data(), sizeof(float), numbers.size(), stdout) == numbers.size();
  if (!is_sent || std::fflush(stdout) != 0)
    throw InvalidArgument("--exchange: the other program reads no more requests; see what it says itself");
}

std::vector<float> receive(std::int64_t count) {
  std::vector<float> c(static_cast<std::size_t>(count));
  const std::size_t got = std::fread(c.data(), sizeof(float), c.size(), stdin);
  if (got != c.size())
    throw InvalidArgument(
        fmt::format("--exchange: the other program ended after {} of {} numbers of an answer; see what it says itself",
                    got, c.size()));
  return c;
}

void keep_broken_pipes_as_errors() {
  std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace

ProductCall blas_kernel(const std::string& library) {
  void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    const char* const reason = dlerror();
    throw NotAvailable(fmt::format("--blas {}: the library cannot be loaded: {}", library,
                                   reason == nullptr ? "no reason given" : reason));
  }
  const auto sgemm = reinterpret_cast<Sgemm>(dlsym(loaded, "cblas_sgemm"));
  if (sgemm == nullptr)
    throw NotAvailable(fmt::format(
        "--blas {}: the library has no function cblas_sgemm; name one with the C interface of BLAS", library));
  return [sgemm](const ProductShape& shape, std::span<const float> a, std::span<const float> b) {
    constexpr int by_rows = 101, as_it_is = 111;
    constexpr std::int64_t most = std::numeric_limits<int>::max();
    if (shape.m > most || shape.n > most || shape.k > most)
      throw InvalidArgument("--blas: an extent is beyond the integers of cblas_sgemm");
    const auto m = static_cast<int>(shape.m), n = static_cast<int>(shape.n), k = static_cast<int>(shape.k);
    std::vector<float> c(static_cast<std::size_t>(shape.m * shape.n));
    sgemm(by_rows, as_it_is, as_it_is, m, n, k, 1.0F, a.data(), k, b.data(), n, 0.0F, c.data(), n);
    return c;
  };
}

ProductCall exchanged_product() {
  keep_broken_pipes_as_errors();
  return [](const ProductShape& shape, std::span<const float> a, std::span<const float> b) {
    send(fmt::format("{{\"operation\": \"product\", \"m\": {}, \"k\": {}, \"n\": {}}}\n", shape.m, shape.k, shape.n), a,
         b);
    return receive(shape.m * shape.n);
  };
}

SumCall exchanged_sum() {
  keep_broken_pipes_as_errors();
  return [](std::int64_t rows, std::int64_t length, std::span<const float> values) {
    send(fmt::format("{{\"operation\": \"sum\", \"m\": {}, \"k\": {}}}\n", rows, length), values, {});
    return receive(rows);
  };
}

void end_exchange() {
  std::fflush(stdout);
  dup2(STDERR_FILENO, STDOUT_FILENO);
}

}  // namespace driftbound::cli
