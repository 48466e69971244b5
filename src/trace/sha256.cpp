#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <string_view>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "driftbound/trace/trace.hpp"
#include "model/text.hpp"
#include "trace/sha256_blocks.hpp"

namespace driftbound {
namespace {

using Block = std::array<std::uint8_t, 64>;
using Digest = Sha256State;

/// First 32 bits of the fractional parts of the square roots of the first 8 primes (FIPS 180-4, 5.3.3).
constexpr Digest initial_digest = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

std::string hex(const Digest& digest) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::uint32_t word : digest) {
    for (int shift = 28; shift >= 0; shift -= 4) text += digits[(word >> shift) & 15];
  }
  return text;
}

void compress(Digest& digest, const std::uint8_t* blocks, std::size_t count) {
  static const Sha256Blocks fastest = usable_sha256_blocks().back();
  fastest(digest, blocks, count);
}

/// Takes whole blocks; returns what is left behind them.
std::span<const std::byte> compress_blocks(Digest& digest, std::span<const std::byte> bytes) {
  const std::size_t count = bytes.size() / Block().size();
  compress(digest, reinterpret_cast<const std::uint8_t*>(bytes.data()), count);
  return bytes.subspan(count * Block().size());
}

/// Padding behind the last bytes, fewer than a block: a one bit, zeros, and the length in bits as 64 big-endian bits.
std::string finish(Digest digest, std::span<const std::byte> rest, std::uint64_t bytes) {
  Block block{};
  if (!rest.empty()) std::memcpy(block.data(), rest.data(), rest.size());
  block[rest.size()] = 0x80;
  if (rest.size() >= 56) {
    compress(digest, block.data(), 1);
    block = {};
  }
  for (std::size_t i = 0; i < 8; ++i) block[63 - i] = static_cast<std::uint8_t>(8 * bytes >> (8 * i));
  compress(digest, block.data(), 1);
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
