#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <string_view>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "driftbound/trace/trace.hpp"
#include "model/text.hpp"

namespace driftbound {
namespace {

using Block = std::array<std::uint8_t, 64>;
using Digest = std::array<std::uint32_t, 8>;

/// First 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2).
constexpr std::array<std::uint32_t, 64> round_constants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/// First 32 bits of the fractional parts of the square roots of the first 8 primes (FIPS 180-4, 5.3.3).
constexpr Digest initial_digest = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

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

void compress(Digest& digest, const std::uint8_t* block) {
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
  const Digest state = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) digest[i] += state[i];
}

std::string hex(const Digest& digest) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::uint32_t word : digest) {
    for (int shift = 28; shift >= 0; shift -= 4) text += digits[(word >> shift) & 15];
  }
  return text;
}

/// Takes whole blocks; returns what is left behind them.
std::span<const std::byte> compress_blocks(Digest& digest, std::span<const std::byte> bytes) {
  Block block{};
  for (; bytes.size() >= block.size(); bytes = bytes.subspan(block.size())) {
    std::memcpy(block.data(), bytes.data(), block.size());
    compress(digest, block.data());
  }
  return bytes;
}

/// Padding behind the last bytes, fewer than a block: a one bit, zeros, and the length in bits as 64 big-endian bits.
std::string finish(Digest digest, std::span<const std::byte> rest, std::uint64_t bytes) {
  Block block{};
  if (!rest.empty()) std::memcpy(block.data(), rest.data(), rest.size());
  block[rest.size()] = 0x80;
  if (rest.size() >= 56) {
    compress(digest, block.data());
    block = {};
  }
  for (std::size_t i = 0; i < 8; ++i) block[63 - i] = static_cast<std::uint8_t>(8 * bytes >> (8 * i));
  compress(digest, block.data());
  return hex(digest);
}

}  // namespace

std::string sha256_of(std::span<const std::byte> bytes) {
  Digest digest = initial_digest;
  const std::span<const std::byte> rest = compress_blocks(digest, bytes);
  return finish(digest, rest, bytes.size());
}

std::string sha256_of_file(const std::filesystem::path& file) {
  std::vector<char> part(std::size_t{1} << 20);  // whole blocks
  std::ifstream in(file, std::ios::binary);
  Digest digest = initial_digest;
  std::span<const std::byte> rest;
  std::uint64_t bytes = 0;
  while (in) {
    in.read(part.data(), static_cast<std::streamsize>(part.size()));
    const auto count = static_cast<std::size_t>(in.gcount());
    rest = compress_blocks(digest, std::as_bytes(std::span(part.data(), count)));
    bytes += count;
  }
  if (!in.eof()) throw FileError("cannot read " + printable(file.string()));
  return finish(digest, rest, bytes);
}

}  // namespace driftbound
