#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "driftbound/trace/trace.hpp"
#include "support/temporary_folder.hpp"
#include "trace/sha256_blocks.hpp"

using namespace driftbound;

namespace {

std::string sha256_of_text(const std::string& text) {
  return sha256_of(std::as_bytes(std::span(text)));
}

}  // namespace

TEST_CASE("SHA-256 gives the values of FIPS 180-4") {
  CHECK(sha256_of_text("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_of_text("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_of_text("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256_of_text(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("SHA-256 pads right around the block boundaries") {
  CHECK(sha256_of_text(std::string(55, 'x')) == "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072");
  CHECK(sha256_of_text(std::string(56, 'x')) == "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e");
  CHECK(sha256_of_text(std::string(63, 'x')) == "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2");
  CHECK(sha256_of_text(std::string(64, 'x')) == "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c");
  CHECK(sha256_of_text(std::string(65, 'x')) == "9537c5fdf120482f7d58d25e9ed583f52c02b4e304ea814db1633ad565aed7e9");
}

TEST_CASE("SHA-256 of a file is that of its bytes, and a missing file is a FileError") {
  const test::TemporaryFolder folder;
  CHECK(sha256_of_file(folder.write("abc", "abc")) == sha256_of_text("abc"));
  CHECK(sha256_of_file(folder.write("empty", "")) == sha256_of_text(""));
  for (const std::size_t size : {(std::size_t{1} << 20) - 1, std::size_t{1} << 20, (std::size_t{2} << 20) + 57}) {
    std::string text(size, 'x');
    for (std::size_t i = 0; i < size; i += 1000) text[i] = static_cast<char>('a' + i / 1000 % 26);
    CHECK(sha256_of_file(folder.write("large", text)) == sha256_of_text(text));
  }
  CHECK_THROWS_AS(sha256_of_file(folder / "missing"), FileError);
  CHECK_THROWS_AS(sha256_of_file(folder.path()), FileError);
}

TEST_CASE("blocks of SHA-256 give the same state by the processor's instructions and without") {
  std::mt19937 generator(1);
  const std::vector<Sha256Blocks> usable = usable_sha256_blocks();
  MESSAGE("ways: " << usable.size());
  for (std::size_t count = 0; count < 20; ++count) {
    std::vector<std::uint8_t> blocks(64 * count + 1);
    for (std::uint8_t& byte : blocks) byte = static_cast<std::uint8_t>(generator());
    Sha256State before;
    for (std::uint32_t& word : before) word = static_cast<std::uint32_t>(generator());
    Sha256State expected = before;
    usable.front()(expected, blocks.data(), count);
    CHECK((expected == before) == (count == 0));
    for (const Sha256Blocks take : usable) {
      Sha256State state = before;
      take(state, blocks.data(), count);
      CHECK(state == expected);
    }
  }
  Sha256State state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::vector<std::uint8_t> abc(64);
  abc[0] = 'a', abc[1] = 'b', abc[2] = 'c', abc[3] = 0x80, abc[63] = 24;
  usable.front()(state, abc.data(), 1);
  CHECK(state[0] == 0xba7816bf);
  CHECK(state[7] == 0xf20015ad);
}
