// Several threads ask one field at a time, as well as copies of it, none of them prepared: scripts/check_threads.sh builds
// this and the library with the thread sanitizer.

#include <fmt/format.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/model/load.hpp"

namespace {

constexpr std::uint32_t threads = 4, points = 1500;

/// Numbers from -1 to 1, others for every thread.
std::vector<double> point_of(std::uint32_t thread, std::uint32_t index, std::size_t dimension) {
  std::vector<double> point(dimension);
  std::uint32_t state = 1 + thread + threads * index;
  for (double& x : point) {
    state = state * 1664525U + 1013904223U;
    x = static_cast<double>(state >> 8) * 0x1p-23 - 1.0;
  }
  return point;
}

void ask(const driftbound::SignField& field, std::uint32_t thread, std::size_t dimension) {
  const driftbound::SignField copy = field;
  for (std::uint32_t i = 0; i < points; ++i) (i % 2 == 0 ? field : copy).at(point_of(thread, i, dimension));
}

}  // namespace

int main(int argc, char** argv) {
  for (int k = 1; k < argc; ++k) {
    const driftbound::SignField field(driftbound::load_model(argv[k]));
    std::vector<std::thread> all;
    for (std::uint32_t thread = 0; thread < threads; ++thread)
      all.emplace_back([&field, thread] { ask(field, thread, field.dimension()); });
    for (std::thread& one : all) one.join();
    fmt::print("{}: {} points by {} threads\n", argv[k], field.statistics().points, threads);
  }
}
