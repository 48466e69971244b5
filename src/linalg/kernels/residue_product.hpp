#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "simd/target.hpp"

namespace driftbound::linalg {

/// Pairwise coprime, the largest below 257 (T-100). Products use as many of the first as their operands need.
inline constexpr std::array<std::int32_t, 20> moduli = {256, 255, 253, 251, 247, 241, 239, 233, 229, 227,
                                                        223, 217, 211, 199, 197, 193, 191, 181, 179, 173};
/// Integers are cut into limbs and digits of this many bits.
inline constexpr int limb_bits = 40;
inline constexpr std::size_t most_limbs = 4, most_digits = 3;

/// Rows of a panel, and steps of a chunk of it.
inline constexpr std::size_t residue_rows = 16, residue_steps = 64;
/// Bytes of a chunk of a panel, and residues of a tile: of one panel by another.
inline constexpr std::size_t chunk_size = residue_rows * residue_steps, tile_size = residue_rows * residue_rows;
/// Chunks whose products are added up before sums are reduced, and what they are reduced to at most.
inline constexpr std::size_t chunks_at_once = 128;
inline constexpr std::int32_t largest_residue = 177;

/// Digits are kept in eight bytes each: those of several reach over so many, from the lowest of the first.
inline constexpr std::size_t limb_bytes = limb_bits / 8, bytes_of_digits = (most_digits - 1) * limb_bytes + 8;
/// What bytes of doubles make of integers: an integer x below 2^51 added to 1.5 2^52 has the bits bits_of_zero + x.
inline constexpr double to_integer = 0x1.8p52;
inline constexpr std::uint64_t bits_of_zero = 0x4338'0000'0000'0000;

/// A modulus p as the kernels use it.
struct Modulus {
  std::int32_t p;
  std::int8_t byte[bytes_of_digits];  ///< 256^k modulo p, nearest to 0
  std::int32_t offset[most_digits];   ///< - bits_of_zero (1 + 2^40 + ...) modulo p, by the number of digits less one
};

/// How residues of the first `count` moduli are put together: weight[s] is 1 modulo p_s and 0 modulo the others.
struct ResidueBasis {
  std::size_t count, limbs;
  int bits;     ///< 2^bits <= the product of the moduli
  double size;  ///< not above that product, nor below it by more than 2^-49 of it
  std::array<Modulus, moduli.size()> modulus;
  std::array<std::array<double, most_limbs>, moduli.size()> weight;  ///< limbs, the lowest first
  std::array<double, most_limbs> product;
  std::array<double, most_limbs> share;  ///< of a limb's unit in the product: 2^(40 i) / product, to nearest
};

/// One build of products by residues for one instruction set, which keeps digits in its own way. Chunks of a left panel
/// are [row, step], those of a right panel [step / 4, row, step % 4].
struct ResidueKernels {
  const char* name;

  /// (high[l] + low[l]) factor to the nearest integer as `count` digits base 2^40, the i-th ones behind digits[i *
  /// length]; `low` may be null: zeros. One digit: those numbers are integers, below 2^50.
  void (*digits)(const double* high, const double* low, std::size_t length, double factor, std::size_t count,
                 double* digits);
  /// The sums over i of 2^(40 i) times digit i, modulo p: in [0, p) (left) or in [-p/2, p/2] (right, as signed bytes).
  /// Those of the next residue_steps elements are `step` further. length is a multiple of residue_steps.
  void (*left_residues)(const double* digits, std::size_t count, std::size_t length, const Modulus& modulus,
                        std::size_t step, std::uint8_t* bytes);
  void (*right_residues)(const double* digits, std::size_t count, std::size_t length, const Modulus& modulus,
                         std::size_t step, std::uint8_t* bytes);
  /// A pair of left panels by `pairs` pairs of right ones modulo all of `basis`, as residues of at most
  /// largest_residue, into tiles [modulus, right pair, left panel, right panel] of [row of the left panel, row of the
  /// right one]. A pair holds [modulus, panel, chunk]; right pairs are `b_pair` bytes apart.
  void (*multiply)(const std::uint8_t* a, const std::uint8_t* b, std::size_t b_pair, std::size_t chunks,
                   const ResidueBasis& basis, std::size_t pairs, std::int16_t* residues);
  /// One tile: integers from their residues (those of the next modulus are `step` further), times row_scale
  /// column_scale, as high + low, exact but for `rest`, which is 0 below 2^104 and may be null. Rows of results are
  /// `stride` apart.
  void (*combine)(const std::int16_t* residues, std::size_t step, const ResidueBasis& basis, const double* row_scale,
                  const double* column_scale, std::size_t stride, double* high, double* low, double* rest);
  /// target[i] = source[place[i]].
  void (*rearrange)(const double* source, const std::int32_t* place, std::size_t count, double* target);
};

extern const ResidueKernels residue_baseline;
extern const ResidueKernels residue_vnni;  // x86-64 builds only
extern const ResidueKernels residue_amx;   // x86-64 builds only

}  // namespace driftbound::linalg
