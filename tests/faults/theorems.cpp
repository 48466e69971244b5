#include "faults/theorems.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace checks {
namespace {

const Theorems& proven_table() {
  static const Theorems table;
  return table;
}

std::atomic<const Theorems*> in_force{nullptr};  // null: proven_table()

template <class Member>
void add_if_same(const char* name, Member member, std::span<const Theorems> faulty, std::vector<std::string>& names) {
  const auto is_right = [&](const Theorems& table) { return table.*member == proven_table().*member; };
  if (std::all_of(faulty.begin(), faulty.end(), is_right)) names.emplace_back(name);
}

/// The places of a table of kernels, which has nothing but functions.
template <class Kernels>
void add_if_same_kernels(const char* name, Kernels Theorems::*member, std::span<const Theorems> faulty,
                         std::vector<std::string>& names) {
  using Place = void (*)();
  constexpr std::size_t count = sizeof(Kernels) / sizeof(Place);
  static_assert(std::is_trivially_copyable_v<Kernels> && sizeof(Kernels) % sizeof(Place) == 0);
  const auto place = [&](const Theorems& table, std::size_t i) {
    Place function = nullptr;
    std::memcpy(&function, reinterpret_cast<const char*>(&(table.*member)) + i * sizeof(Place), sizeof(Place));
    return function;
  };
  for (std::size_t i = 0; i < count; ++i) {
    const auto is_right = [&](const Theorems& table) { return place(table, i) == place(proven_table(), i); };
    if (std::all_of(faulty.begin(), faulty.end(), is_right)) names.push_back(name + (" " + std::to_string(i)));
  }
}

}  // namespace

const Theorems& theorems_in_force() {
  const Theorems* const table = in_force.load(std::memory_order_relaxed);
  return table != nullptr ? *table : proven_table();
}

ScopedTheorems::ScopedTheorems(const Theorems& replacement)
    : replacement_(replacement), previous_(in_force.exchange(&replacement_)) {}

ScopedTheorems::~ScopedTheorems() {
  in_force.store(previous_);
}

#define THEOREM(result, name, parameters, arguments) add_if_same(#name, &Theorems::name, faulty, names);
#define FORWARD(result, name, parameters, arguments)
std::vector<std::string> same_in_all_of_bounds(std::span<const Theorems> faulty) {
  std::vector<std::string> names;
#include "faults/theorems_of_bounds.inc"
  add_if_same_kernels("row kernel", &Theorems::rows, faulty, names);
  add_if_same_kernels("sum kernel", &Theorems::sums, faulty, names);
  return names;
}

std::vector<std::string> same_in_all_of_double_double(std::span<const Theorems> faulty) {
  std::vector<std::string> names;
#include "faults/theorems_of_double_double.inc"
  return names;
}

std::vector<std::string> same_in_all_of_implicit(std::span<const Theorems> faulty) {
  std::vector<std::string> names;
#include "faults/theorems_of_implicit.inc"
  return names;
}

std::vector<std::string> same_in_all_of_num(std::span<const Theorems> faulty) {
  std::vector<std::string> names;
#include "faults/theorems_of_num.inc"
  return names;
}
#undef FORWARD
#undef THEOREM

}  // namespace checks

// What the library calls.

#define THEOREM(result, name, parameters, arguments)   \
  result name parameters {                             \
    return checks::theorems_in_force().name arguments; \
  }
#define FORWARD(result, name, parameters, arguments) \
  result name parameters {                           \
    return proven_theorems::name arguments;          \
  }

namespace driftbound::bounds::inline theorems {
#include "faults/theorems_of_bounds.inc"
#include "faults/theorems_of_double_double.inc"

const RowKernels& row_kernels() {
  return checks::theorems_in_force().rows;
}
const SumKernels& sum_kernels() {
  return checks::theorems_in_force().sums;
}
}  // namespace driftbound::bounds::inline theorems

namespace driftbound::implicit::inline theorems {
#include "faults/theorems_of_implicit.inc"
}  // namespace driftbound::implicit::inline theorems

namespace driftbound::num::inline theorems {
#include "faults/theorems_of_num.inc"
}  // namespace driftbound::num::inline theorems
