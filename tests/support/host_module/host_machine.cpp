#include "support/host_module/host_machine.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "num/narrow.inl.hpp"
#include "support/tensor_core.hpp"

namespace driftbound::device {
namespace {

std::atomic<std::uint64_t> live{0};

std::optional<std::string> variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? std::nullopt : std::optional<std::string>(text);
}

template <std::size_t size>
void set_text(char (&target)[size], const std::string& text) {
  std::snprintf(target, size, "%s", text.c_str());
}

/// Products one after the other, the first one rounded, the others fused.
template <class Real>
void multiply_in_sequence(const driftbound_product& product) {
  const Operands<Real> p(product);
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      const shared::ProductChain<Real> chain{p.a + i * p.a_row, p.a_col, p.b + j * p.b_col, p.b_row, true};
      p.c[i * p.n + j] = chain(0, p.k);
    }
  }
}

/// By the tensor core's rules; value(x) is the number that an element x of A or B stands for.
template <class Element, class Value>
void multiply_on_tensor_core(const driftbound_product& p, const test::TensorCoreUnit& unit, Value value) {
  const auto* a = static_cast<const Element*>(p.a);
  const auto* b = static_cast<const Element*>(p.b);
  auto* c = static_cast<float*>(p.c);
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      c[i * p.n + j] = test::tensor_core_chain(
          unit, 0.0f, p.k, [&](std::int64_t k) { return value(a[i * p.a_row + k * p.a_col]); },
          [&](std::int64_t k) { return value(b[k * p.b_row + j * p.b_col]); });
    }
  }
}

/// In the vendor's modes.
void multiply(driftbound_gemm_mode mode, const driftbound_product& product) {
  const auto as_tf32 = [](float x) { return narrow::rounded(x, narrow::tf32); };
  switch (mode) {
    case DRIFTBOUND_GEMM_F32:
    case DRIFTBOUND_GEMM_F32_PEDANTIC:
      multiply_in_sequence<float>(product);
      break;
    case DRIFTBOUND_GEMM_F64:
    case DRIFTBOUND_GEMM_F64_PEDANTIC:
      multiply_in_sequence<double>(product);
      break;
    case DRIFTBOUND_GEMM_TF32:
      multiply_on_tensor_core<float>(product, {25, 8, -126}, as_tf32);
      break;
    case DRIFTBOUND_GEMM_BF16:
      multiply_on_tensor_core<std::uint16_t>(product, {25, 16, -126}, narrow::from_bf16);
      break;
    case DRIFTBOUND_GEMM_FP16:
      multiply_on_tensor_core<std::uint16_t>(product, {25, 16, -14}, narrow::from_fp16);
      break;
  }
}

/// Parts of K apart, then their sums one after the other.
template <class Real>
void multiply_in_parts(driftbound_gemm_mode mode, const driftbound_product& product, std::int32_t parts) {
  const std::size_t width = mode == DRIFTBOUND_GEMM_BF16 || mode == DRIFTBOUND_GEMM_FP16 ? 2 : sizeof(Real);
  const std::int64_t length = (product.k + parts - 1) / parts, size = product.m * product.n;
  std::vector<Real> part(static_cast<std::size_t>(size));
  auto* const c = static_cast<Real*>(product.c);
  for (std::int64_t first = 0; first < product.k; first += length) {
    driftbound_product of_part = product;
    of_part.k = std::min(length, product.k - first);
    of_part.a = static_cast<const std::byte*>(product.a) + static_cast<std::size_t>(first * product.a_col) * width;
    of_part.b = static_cast<const std::byte*>(product.b) + static_cast<std::size_t>(first * product.b_row) * width;
    of_part.c = part.data();
    multiply(mode, of_part);
    for (std::size_t i = 0; i < part.size(); ++i) c[i] = first == 0 ? part[i] : c[i] + part[i];
  }
}

void require_unit_stride(std::int64_t row, std::int64_t column) {
  if (row == 1 || column == 1) return;
  throw Failure{DRIFTBOUND_DEVICE_UNSUPPORTED, "the vendor's product takes rows or columns without gaps"};
}

}  // namespace

Faults Faults::from_environment() {
  Faults faults;
  faults.unavailable = variable("DRIFTBOUND_HOST_MODULE_UNAVAILABLE");
  if (const auto text = variable("DRIFTBOUND_HOST_MODULE_MEMORY")) faults.memory = std::stoull(*text);
  if (const auto text = variable("DRIFTBOUND_HOST_MODULE_LOST_AFTER")) faults.lost_after = std::stoull(*text);
  faults.disturbed = variable("DRIFTBOUND_HOST_MODULE_DISTURB") == "1";
  faults.environment = variable("DRIFTBOUND_HOST_MODULE_ENVIRONMENT").value_or("");
  return faults;
}

HostMachine::HostMachine(std::int32_t ordinal, driftbound_device_info& info) : faults_(Faults::from_environment()) {
  if (faults_.unavailable) throw Failure{DRIFTBOUND_DEVICE_NOT_AVAILABLE, *faults_.unavailable};
  if (ordinal != 0) {
    throw Failure{DRIFTBOUND_DEVICE_NOT_AVAILABLE,
                  "there is no CUDA device " + std::to_string(ordinal) + ": this machine has 1"};
  }
  set_text(info.backend, "cuda");
  set_text(info.name, "host double");
  set_text(info.build_flags, "host");
  set_text(info.environment, faults_.environment);
  info.compute_major = 9;
  info.multiprocessors = 1;
  info.driver_version = 13000;
  info.runtime_version = 13000;
  info.blas_version = 130000;
  info.memory_bytes = faults_.memory;
}

HostMachine::~HostMachine() {
  while (!sizes_.empty()) release(sizes_.begin()->first);
}

void HostMachine::enter() {
  if (faults_.lost_after && calls_ >= *faults_.lost_after) {
    throw Failure{DRIFTBOUND_DEVICE_LOST, "the device was lost"};
  }
  ++calls_;
}

void HostMachine::memory(std::uint64_t& free_bytes, std::uint64_t& all_bytes) const {
  std::uint64_t used = 0;
  for (const auto& [memory, bytes] : sizes_) used += bytes;
  all_bytes = faults_.memory;
  free_bytes = faults_.memory - used;
}

void* HostMachine::allocate(std::uint64_t bytes) {
  std::uint64_t free_bytes = 0, all_bytes = 0;
  memory(free_bytes, all_bytes);
  if (bytes > free_bytes) {
    throw Failure{DRIFTBOUND_DEVICE_OUT_OF_MEMORY,
                  "the device is out of memory: " + std::to_string(bytes) + " bytes were asked for"};
  }
  void* const memory = ::operator new(bytes);
  std::memset(memory, 0xab, bytes);  // what has not been written is not zero
  sizes_.emplace(memory, bytes);
  live += bytes;
  return memory;
}

void HostMachine::release(void* memory) {
  const auto found = sizes_.find(memory);
  if (found == sizes_.end()) return;
  live -= found->second;
  sizes_.erase(found);
  ::operator delete(memory);
}

void HostMachine::upload(void* to, const void* from, std::uint64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  downloaded_ = false;
}

void HostMachine::download(void* to, const void* from, std::uint64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  downloaded_ = true;
}

void HostMachine::gemm(driftbound_gemm_mode mode, const driftbound_product& product) {
  require_unit_stride(product.a_row, product.a_col);
  require_unit_stride(product.b_row, product.b_col);
  multiply(mode, product);
  disturb_bits(product.c);
}

std::vector<driftbound_algorithm> HostMachine::algorithms(driftbound_gemm_mode,
                                                          const driftbound_product& product) const {
  std::vector<driftbound_algorithm> all;
  for (const std::int32_t parts : {1, 2, 4}) {
    if (parts > product.k) break;
    driftbound_algorithm algorithm{};
    algorithm.id = 20 + parts;
    set_text(algorithm.tile, "64x64");
    set_text(algorithm.stages, "32x3");
    algorithm.split_k = parts;
    algorithm.reduction = parts > 1 ? DRIFTBOUND_SPLIT_IN_SUM_TYPE : DRIFTBOUND_SPLIT_NONE;
    algorithm.workspace_bytes = parts > 1 ? static_cast<std::uint64_t>(parts * product.m * product.n) * 4 : 0;
    all.push_back(algorithm);
  }
  return all;
}

driftbound_algorithm HostMachine::gemm_by(driftbound_gemm_mode mode, const driftbound_product& product,
                                          std::int32_t algorithm) {
  require_unit_stride(product.a_row, product.a_col);
  require_unit_stride(product.b_row, product.b_col);
  const std::vector<driftbound_algorithm> all = algorithms(mode, product);
  require_algorithm(algorithm, all.size());
  const driftbound_algorithm& chosen = all[static_cast<std::size_t>(algorithm)];
  if (mode == DRIFTBOUND_GEMM_F64 || mode == DRIFTBOUND_GEMM_F64_PEDANTIC)
    multiply_in_parts<double>(mode, product, chosen.split_k);
  else
    multiply_in_parts<float>(mode, product, chosen.split_k);
  disturb_bits(product.c);
  return chosen;
}

std::uint64_t HostMachine::live_bytes() {
  return live;
}

}  // namespace driftbound::device
