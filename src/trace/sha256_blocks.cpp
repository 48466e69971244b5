#include "trace/sha256_blocks.hpp"

#include <bit>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace driftbound {
namespace {

constexpr std::size_t block_size = 64;

/// First 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2).
alignas(16) constexpr std::array<std::uint32_t, 64> round_constants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::array<std::uint32_t, 64> message_schedule(const std::uint8_t* block) {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t t = 0; t < 16; ++t) {
    for (std::size_t i = 0; i < 4; ++i) w[t] = (w[t] << 8) | block[4 * t + i];
  }
  for (std::size_t t = 16; t < 64; ++t) {
    const std::uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
    const std::uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  return w;
}

void compress(Sha256State& digest, const std::uint8_t* block) {
  const std::array<std::uint32_t, 64> w = message_schedule(block);
  auto [a, b, c, d, e, f, g, h] = digest;
  for (std::size_t t = 0; t < 64; ++t) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t choice = (e & f) ^ (~e & g);
    const std::uint32_t t1 = h + s1 + choice + round_constants[t] + w[t];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + s0 + majority;
  }
  const Sha256State state = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) digest[i] += state[i];
}

void compress_blocks(Sha256State& state, const std::uint8_t* blocks, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) compress(state, blocks + i * block_size);
}

#if defined(__x86_64__)

bool has_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_SHA) != 0 && __builtin_cpu_supports("sse4.1") != 0;
}

/// By the processor's own instructions, four rounds at a time; their state is (f e b a), (h g d c).
__attribute__((target("sha,sse4.1,ssse3"))) void compress_blocks_by_instructions(Sha256State& state,
                                                                                 const std::uint8_t* blocks,
                                                                                 std::size_t count) {
  const auto load = [](const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); };
  const __m128i bytes_of_words = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const __m128i first = _mm_shuffle_epi32(load(state.data()), 0xb1), last = _mm_shuffle_epi32(load(&state[4]), 0x1b);
  __m128i abef = _mm_alignr_epi8(first, last, 8), cdgh = _mm_blend_epi16(last, first, 0xf0);
  for (const std::uint8_t* block = blocks; block != blocks + count * block_size; block += block_size) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i words[4];
    for (std::size_t i = 0; i < 16; ++i) {
      __m128i& w = words[i % 4];
      if (i < 4) {
        w = _mm_shuffle_epi8(load(block + 16 * i), bytes_of_words);
      } else {
        const __m128i before = words[(i + 3) % 4];
        const __m128i sum =
            _mm_add_epi32(_mm_sha256msg1_epu32(w, words[(i + 1) % 4]), _mm_alignr_epi8(before, words[(i + 2) % 4], 4));
        w = _mm_sha256msg2_epu32(sum, before);
      }
      const __m128i added = _mm_add_epi32(w, load(&round_constants[4 * i]));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, added);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(added, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state.data()), _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[4]), _mm_alignr_epi8(dchg, feba, 8));
}

#endif

}  // namespace

std::vector<Sha256Blocks> usable_sha256_blocks() {
  std::vector<Sha256Blocks> usable = {compress_blocks};
#if defined(__x86_64__)
  if (has_instructions()) usable.push_back(compress_blocks_by_instructions);
#endif
  return usable;
}

}  // namespace driftbound
