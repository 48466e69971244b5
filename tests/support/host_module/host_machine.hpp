#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cuda/failure.hpp"
#include "cuda/kernels.inl.hpp"
#include "cuda/ordered_product.inl.hpp"

namespace driftbound::device {

/// What the host double is asked to do wrong, from the environment; read when a device is opened.
struct Faults {
  std::optional<std::string> unavailable;  ///< DRIFTBOUND_HOST_MODULE_UNAVAILABLE: the sentence open() fails with
  std::uint64_t memory = std::uint64_t{1} << 40;  ///< DRIFTBOUND_HOST_MODULE_MEMORY: bytes in all
  std::optional<std::uint64_t> lost_after;        ///< DRIFTBOUND_HOST_MODULE_LOST_AFTER: calls that succeed
  bool disturbed = false;                         ///< DRIFTBOUND_HOST_MODULE_DISTURB: results change after a download
  std::string environment;                        ///< DRIFTBOUND_HOST_MODULE_ENVIRONMENT: of the device's description

  static Faults from_environment();
};

/// A device made of host memory and loops (cuda/module.inl.hpp says what a machine is).
class HostMachine {
public:
  HostMachine(std::int32_t ordinal, driftbound_device_info& info);
  ~HostMachine();
  HostMachine(const HostMachine&) = delete;
  HostMachine& operator=(const HostMachine&) = delete;

  void enter();
  void memory(std::uint64_t& free_bytes, std::uint64_t& all_bytes) const;
  void* allocate(std::uint64_t bytes);
  void release(void* memory);
  void upload(void* to, const void* from, std::uint64_t bytes);
  void download(void* to, const void* from, std::uint64_t bytes);
  void synchronize() {}
  void gemm(driftbound_gemm_mode mode, const driftbound_product& product);
  /// The product in one part, in 2 and in 4 parts of K that are added one after the other: as many as there are terms
  /// for.
  std::vector<driftbound_algorithm> algorithms(driftbound_gemm_mode mode, const driftbound_product& product) const;
  driftbound_algorithm gemm_by(driftbound_gemm_mode mode, const driftbound_product& product, std::int32_t algorithm);

  template <class F>
  void for_each(std::int64_t count, const F& f) {
    for (std::int64_t i = 0; i < count; ++i) f(i);
    if (count > 0) disturb(f);
  }

  template <class Real, bool fused>
  void for_each_block(const TiledProduct<Real, fused>& product) {
    using Product = TiledProduct<Real, fused>;
    for (std::int64_t block = 0; block < product.blocks(); ++block) {
      typename Product::Tiles tiles;
      std::vector<typename Product::Sums> sums(Product::threads, typename Product::Sums(product.chain_length));
      for (std::int64_t k = 0; k < product.p.k; k += Product::depth) {
        for (unsigned thread = 0; thread < Product::threads; ++thread) product.load(tiles, block, thread, k);
        for (unsigned thread = 0; thread < Product::threads; ++thread) {
          product.add(tiles, thread, k, sums[thread]);
        }
      }
      for (unsigned thread = 0; thread < Product::threads; ++thread) {
        product.store(block, thread, sums[thread]);
      }
    }
    disturb_bits(product.p.c);
  }

  static std::uint64_t live_bytes();

private:
  /// Flips the last bit of a result where the disturbance is asked for and something has been downloaded since the
  /// last upload.
  template <class Real>
  void disturb_bits(Real* result) const {
    if (faults_.disturbed && downloaded_) *reinterpret_cast<unsigned char*>(result) ^= 1u;
  }
  template <class Real, driftbound_unary function>
  void disturb(const Unary<Real, function>& f) const {
    disturb_bits(f.y);
  }
  template <class F>
  void disturb(const F&) const {}

  Faults faults_;
  std::uint64_t calls_ = 0;
  bool downloaded_ = false;
  std::map<void*, std::uint64_t> sizes_;
};

}  // namespace driftbound::device
