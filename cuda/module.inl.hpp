// The table of functions of a module, from a Machine:
//
//   Machine(int32_t ordinal, driftbound_device_info& info)
//   void enter()                                    before every call
//   memory, allocate, release, upload, download, synchronize, gemm
//   std::vector<driftbound_algorithm> algorithms(mode, product)
//   driftbound_algorithm gemm_by(mode, product, algorithm)
//   void for_each(int64_t count, f)                 f(i) for every index, in any order
//   void for_each_block(const TiledProduct& f)      f's blocks, in any order
//
// Its functions throw Failure; anything thrown becomes a status and a sentence here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "cuda/failure.hpp"
#include "cuda/kernels.inl.hpp"
#include "cuda/ordered_product.inl.hpp"

namespace driftbound::device {

inline std::string& last_message() {
  thread_local std::string message;
  return message;
}

/// Runs `work`; what it throws becomes a status and the message.
template <class Work>
int status_of(Work work) noexcept {
  try {
    work();
    return DRIFTBOUND_DEVICE_OK;
  } catch (const Failure& failure) {
    last_message() = failure.sentence;
    return failure.status;
  } catch (const std::bad_alloc&) {
    last_message() = "the host is out of memory";
    return DRIFTBOUND_DEVICE_FAILED;
  } catch (const std::exception& error) {
    last_message() = error.what();
    return DRIFTBOUND_DEVICE_FAILED;
  }
}

inline void require(bool condition, const char* sentence) {
  if (!condition) throw Failure{DRIFTBOUND_DEVICE_UNSUPPORTED, sentence};
}

/// The number of elements of a view.
inline std::int64_t elements_of(const driftbound_view& view) {
  require(view.rank >= 0 && view.rank <= DRIFTBOUND_DEVICE_MAX_RANK,
          "a tensor has more dimensions than this module knows");
  std::int64_t count = 1;
  for (int d = 0; d < view.rank; ++d) count *= view.extent[d];
  return count;
}

/// Whether dimensions d and d + 1 of a view can be one.
inline bool can_join(const driftbound_view& view, int d) {
  return view.extent[d] == 1 || view.extent[d + 1] == 1 || view.stride[d] == view.extent[d + 1] * view.stride[d + 1];
}

inline void join(driftbound_view& view, int d) {
  if (view.extent[d + 1] != 1) view.stride[d] = view.stride[d + 1];
  view.extent[d] *= view.extent[d + 1];
  for (int later = d + 1; later + 1 < view.rank; ++later) {
    view.extent[later] = view.extent[later + 1];
    view.stride[later] = view.stride[later + 1];
  }
  --view.rank;
}

/// Views of the same extents with as few dimensions as possible; what they name stays as it is.
template <class... Views>
void simplify(driftbound_view& first, Views&... others) {
  for (const driftbound_view* other : {&others...}) {
    require(first.rank == other->rank, "the extents of two tensors differ");
    for (int d = 0; d < first.rank; ++d)
      require(first.extent[d] == other->extent[d], "the extents of two tensors differ");
  }
  for (int d = first.rank - 2; d >= 0; --d) {
    if (!can_join(first, d) || !(can_join(others, d) && ...)) continue;
    join(first, d);
    (join(others, d), ...);
  }
}

inline narrow::Layout layout_of(driftbound_format format) {
  switch (format) {
    case DRIFTBOUND_FORMAT_FP32:
      return narrow::fp32;
    case DRIFTBOUND_FORMAT_TF32:
      return narrow::tf32;
    case DRIFTBOUND_FORMAT_BF16:
      return narrow::bf16;
    case DRIFTBOUND_FORMAT_FP16:
      return narrow::fp16;
  }
  throw Failure{DRIFTBOUND_DEVICE_UNSUPPORTED, "a format that this module does not know"};
}

template <class Machine>
class Module {
public:
  static const driftbound_device_functions* table(std::uint32_t interface_version) {
    static const driftbound_device_functions functions = {DRIFTBOUND_DEVICE_INTERFACE,
                                                          message,
                                                          open,
                                                          close,
                                                          memory,
                                                          allocate,
                                                          release,
                                                          upload,
                                                          download,
                                                          synchronize,
                                                          move,
                                                          unary,
                                                          binary,
                                                          choose,
                                                          gather,
                                                          fill,
                                                          reduce,
                                                          softmax,
                                                          round,
                                                          narrow_to,
                                                          gemm,
                                                          algorithms,
                                                          gemm_by,
                                                          ordered_product};
    return interface_version == DRIFTBOUND_DEVICE_INTERFACE ? &functions : nullptr;
  }

private:
  static Machine& machine_of(driftbound_device* device) { return *reinterpret_cast<Machine*>(device); }

  template <class Work>
  static int call(driftbound_device* device, Work work) noexcept {
    return status_of([&] {
      Machine& machine = machine_of(device);
      machine.enter();
      work(machine);
    });
  }

  /// work(Real()) for the type named.
  template <class Work>
  static void with_real(driftbound_real real, Work work) {
    require(real == DRIFTBOUND_F32 || real == DRIFTBOUND_F64, "a number type that this module does not know");
    if (real == DRIFTBOUND_F32) work(float());
    if (real == DRIFTBOUND_F64) work(double());
  }

  static const char* message() { return last_message().c_str(); }

  static int open(std::int32_t ordinal, driftbound_device** device, driftbound_device_info* info) {
    return status_of([&] {
      *info = driftbound_device_info{};
      *device = reinterpret_cast<driftbound_device*>(std::make_unique<Machine>(ordinal, *info).release());
    });
  }
  static void close(driftbound_device* device) { delete &machine_of(device); }

  static int memory(driftbound_device* device, std::uint64_t* free_bytes, std::uint64_t* all_bytes) {
    return call(device, [&](Machine& machine) { machine.memory(*free_bytes, *all_bytes); });
  }
  static int allocate(driftbound_device* device, std::uint64_t bytes, void** memory) {
    return call(device, [&](Machine& machine) { *memory = machine.allocate(bytes); });
  }
  static void release(driftbound_device* device, void* memory) { machine_of(device).release(memory); }
  static int upload(driftbound_device* device, void* to, const void* from, std::uint64_t bytes) {
    return call(device, [&](Machine& machine) { machine.upload(to, from, bytes); });
  }
  static int download(driftbound_device* device, void* to, const void* from, std::uint64_t bytes) {
    return call(device, [&](Machine& machine) { machine.download(to, from, bytes); });
  }
  static int synchronize(driftbound_device* device) {
    return call(device, [](Machine& machine) { machine.synchronize(); });
  }

  template <class Element>
  static void move_as(Machine& machine, const void* from, const driftbound_view& from_view, void* to,
                      const driftbound_view& to_view) {
    Move<Element> f{static_cast<const Element*>(from), from_view, static_cast<Element*>(to), to_view};
    const std::int64_t count = elements_of(from_view);
    elements_of(to_view);
    simplify(f.from_view, f.to_view);
    machine.for_each(count, f);
  }

  static int move(driftbound_device* device, std::int32_t bytes_per_element, const void* from,
                  const driftbound_view* from_view, void* to, const driftbound_view* to_view) {
    return call(device, [&](Machine& machine) {
      switch (bytes_per_element) {
        case 2:
          return move_as<std::uint16_t>(machine, from, *from_view, to, *to_view);
        case 4:
          return move_as<std::uint32_t>(machine, from, *from_view, to, *to_view);
        case 8:
          return move_as<std::uint64_t>(machine, from, *from_view, to, *to_view);
        default:
          require(false, "elements are 2, 4 or 8 bytes wide");
      }
    });
  }

  /// Calls machine.for_each with the one of the functions listed that was asked for.
  template <class Real, driftbound_unary... functions>
  static void unary_as(Machine& machine, driftbound_unary function, double parameter, const void* x, void* y,
                       std::int64_t count) {
    const auto known =
        ((function == functions && (machine.for_each(count, Unary<Real, functions>{static_cast<const Real*>(x),
                                                                                   static_cast<Real*>(y), parameter}),
                                    true)) ||
         ...);
    require(known, "a function that this module does not know");
  }

  static int unary(driftbound_device* device, driftbound_real real, driftbound_unary function, double parameter,
                   const void* x, void* y, std::int64_t count) {
    return call(device, [&](Machine& machine) {
      with_real(real, [&](auto zero) {
        unary_as<decltype(zero), DRIFTBOUND_NEG, DRIFTBOUND_RELU, DRIFTBOUND_LEAKY_RELU, DRIFTBOUND_ELU,
                 DRIFTBOUND_TANH, DRIFTBOUND_SIGMOID, DRIFTBOUND_SOFTPLUS, DRIFTBOUND_SIN, DRIFTBOUND_COS,
                 DRIFTBOUND_EXP, DRIFTBOUND_ERF, DRIFTBOUND_SQRT, DRIFTBOUND_SCALE, DRIFTBOUND_ABS,
                 DRIFTBOUND_RECIPROCAL, DRIFTBOUND_LOG, DRIFTBOUND_TAN, DRIFTBOUND_ATAN, DRIFTBOUND_SINH,
                 DRIFTBOUND_COSH, DRIFTBOUND_FLOOR, DRIFTBOUND_CEIL, DRIFTBOUND_SIGN, DRIFTBOUND_POW, DRIFTBOUND_RAISE,
                 DRIFTBOUND_LOWER, DRIFTBOUND_THRESHOLDED_RELU, DRIFTBOUND_ROUND>(machine, function, parameter, x, y,
                                                                                  count);
      });
    });
  }

  template <class Real, driftbound_binary... functions>
  static void binary_as(Machine& machine, driftbound_binary function, const void* a, const driftbound_view& a_view,
                        const void* b, const driftbound_view& b_view, void* y) {
    const std::int64_t count = elements_of(a_view);
    elements_of(b_view);
    driftbound_view u = a_view, v = b_view;
    simplify(u, v);
    const auto known =
        ((function == functions &&
          (machine.for_each(count, Binary<Real, functions>{static_cast<const Real*>(a), u, static_cast<const Real*>(b),
                                                           v, static_cast<Real*>(y)}),
           true)) ||
         ...);
    require(known, "an operation that this module does not know");
  }

  static int binary(driftbound_device* device, driftbound_real real, driftbound_binary function, const void* a,
                    const driftbound_view* a_view, const void* b, const driftbound_view* b_view, void* y) {
    return call(device, [&](Machine& machine) {
      with_real(real, [&](auto zero) {
        binary_as<decltype(zero), DRIFTBOUND_ADD, DRIFTBOUND_SUB, DRIFTBOUND_MUL, DRIFTBOUND_DIV, DRIFTBOUND_MIN,
                  DRIFTBOUND_MAX, DRIFTBOUND_PRELU, DRIFTBOUND_GREATER, DRIFTBOUND_GREATER_OR_EQUAL, DRIFTBOUND_EQUAL>(
            machine, function, a, *a_view, b, *b_view, y);
      });
    });
  }

  static int choose(driftbound_device* device, driftbound_real real, const void* c, const driftbound_view* c_view,
                    const void* a, const driftbound_view* a_view, const void* b, const driftbound_view* b_view,
                    void* y) {
    return call(device, [&](Machine& machine) {
      const std::int64_t count = elements_of(*c_view);
      elements_of(*a_view);
      elements_of(*b_view);
      driftbound_view u = *c_view, v = *a_view, w = *b_view;
      simplify(u, v, w);
      with_real(real, [&](auto zero) {
        using Real = decltype(zero);
        machine.for_each(count, Choose<Real>{static_cast<const Real*>(c), u, static_cast<const Real*>(a), v,
                                             static_cast<const Real*>(b), w, static_cast<Real*>(y)});
      });
    });
  }

  template <class Element>
  static void gather_as(Machine& machine, const void* from, const std::int64_t* table, void* to, std::int64_t count) {
    machine.for_each(count, Gather<Element>{static_cast<const Element*>(from), table, static_cast<Element*>(to)});
  }

  static int gather(driftbound_device* device, std::int32_t bytes_per_element, const void* from,
                    const std::int64_t* table, void* to, std::int64_t count) {
    return call(device, [&](Machine& machine) {
      switch (bytes_per_element) {
        case 2:
          return gather_as<std::uint16_t>(machine, from, table, to, count);
        case 4:
          return gather_as<std::uint32_t>(machine, from, table, to, count);
        case 8:
          return gather_as<std::uint64_t>(machine, from, table, to, count);
        default:
          require(false, "elements are 2, 4 or 8 bytes wide");
      }
    });
  }

  static int fill(driftbound_device* device, driftbound_real real, double value, void* y, std::int64_t count) {
    return call(device, [&](Machine& machine) {
      with_real(real, [&](auto zero) {
        using Real = decltype(zero);
        machine.for_each(count, Fill<Real>{static_cast<Real*>(y), static_cast<Real>(value)});
      });
    });
  }

  template <class Real, driftbound_reduction... reductions>
  static void reduce_as(Machine& machine, driftbound_reduction reduction, const void* x, const std::int64_t* groups,
                        std::int64_t group_count, const std::int64_t* elements, std::int64_t element_count,
                        std::int64_t chain, void* y) {
    const auto known =
        ((reduction == reductions &&
          (machine.for_each(group_count, Reduce<Real, reductions>{static_cast<const Real*>(x), groups, elements,
                                                                  element_count, chain, static_cast<Real*>(y)}),
           true)) ||
         ...);
    require(known, "a reduction that this module does not know");
  }

  static int reduce(driftbound_device* device, driftbound_real real, driftbound_reduction reduction, const void* x,
                    const std::int64_t* groups, std::int64_t group_count, const std::int64_t* elements,
                    std::int64_t element_count, std::int64_t chain, void* y) {
    return call(device, [&](Machine& machine) {
      require(element_count >= 1, "a reduction has at least one element");
      require(chain >= 0, "a chain has at least one term");
      with_real(real, [&](auto zero) {
        reduce_as<decltype(zero), DRIFTBOUND_REDUCE_SUM, DRIFTBOUND_REDUCE_MAX, DRIFTBOUND_REDUCE_MIN>(
            machine, reduction, x, groups, group_count, elements, element_count, chain, y);
      });
    });
  }

  static int softmax(driftbound_device* device, driftbound_real real, const void* x, void* y, std::int64_t outer,
                     std::int64_t length, std::int64_t inner, std::int64_t chain) {
    return call(device, [&](Machine& machine) {
      require(chain >= 0, "a chain has at least one term");
      if (length == 0) return;
      with_real(real, [&](auto zero) {
        using Real = decltype(zero);
        machine.for_each(outer * inner,
                         Softmax<Real>{static_cast<const Real*>(x), static_cast<Real*>(y), length, inner, chain});
      });
    });
  }

  static int round(driftbound_device* device, driftbound_real real, driftbound_format format, const void* x, void* y,
                   std::int64_t count) {
    return call(device, [&](Machine& machine) {
      with_real(real, [&](auto zero) {
        using Real = decltype(zero);
        machine.for_each(count, Round<Real>{static_cast<const Real*>(x), static_cast<Real*>(y), layout_of(format)});
      });
    });
  }

  static int narrow_to(driftbound_device* device, driftbound_format format, const void* x, void* y,
                       std::int64_t count) {
    return call(device, [&](Machine& machine) {
      const auto* from = static_cast<const float*>(x);
      auto* to = static_cast<std::uint16_t*>(y);
      require(format == DRIFTBOUND_FORMAT_BF16 || format == DRIFTBOUND_FORMAT_FP16, "16 bits hold bfloat16 or float16");
      if (format == DRIFTBOUND_FORMAT_BF16) machine.for_each(count, NarrowToBf16{from, to});
      if (format == DRIFTBOUND_FORMAT_FP16) machine.for_each(count, NarrowToFp16{from, to});
    });
  }

  static void require_sizes(const driftbound_product& product) {
    require(product.m >= 1 && product.n >= 1 && product.k >= 1, "a matrix product has m, n and k of at least 1");
  }

  static int gemm(driftbound_device* device, driftbound_gemm_mode mode, const driftbound_product* product) {
    return call(device, [&](Machine& machine) {
      require_sizes(*product);
      machine.gemm(mode, *product);
    });
  }

  static int algorithms(driftbound_device* device, driftbound_gemm_mode mode, const driftbound_product* product,
                        driftbound_algorithm* found, std::int32_t* count) {
    return call(device, [&](Machine& machine) {
      require_sizes(*product);
      const std::vector<driftbound_algorithm> all = machine.algorithms(mode, *product);
      const std::size_t most = std::min<std::size_t>(all.size(), DRIFTBOUND_DEVICE_MAX_ALGORITHMS);
      std::copy_n(all.begin(), most, found);
      *count = static_cast<std::int32_t>(most);
    });
  }

  static int gemm_by(driftbound_device* device, driftbound_gemm_mode mode, const driftbound_product* product,
                     std::int32_t algorithm, driftbound_algorithm* used) {
    return call(device, [&](Machine& machine) {
      require_sizes(*product);
      *used = machine.gemm_by(mode, *product, algorithm);
    });
  }

  static int ordered_product(driftbound_device* device, driftbound_real real, const driftbound_product* product,
                             std::int64_t chain, std::int32_t fused) {
    return call(device, [&](Machine& machine) {
      require_sizes(*product);
      require(chain >= 0, "a chain has at least one product");
      with_real(real, [&](auto zero) {
        using Real = decltype(zero);
        const Operands<Real> operands(*product);
        if (chain == 0) {
          machine.for_each(product->m * product->n, PairwiseProduct<Real>{operands, fused != 0});
        } else if (fused != 0) {
          machine.for_each_block(TiledProduct<Real, true>{operands, chain});
        } else {
          machine.for_each_block(TiledProduct<Real, false>{operands, chain});
        }
      });
    });
  }
};

}  // namespace driftbound::device
