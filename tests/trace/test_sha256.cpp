#include <doctest/doctest.h>

#include <span>
#include <string>

#include "driftbound/num/errors.hpp"
#include "driftbound/trace/trace.hpp"
#include "support/temporary_folder.hpp"

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
