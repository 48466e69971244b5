#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "model/text.hpp"
#include "model/wire.hpp"
#include "support/onnx_writer.hpp"

using namespace driftbound;
using driftbound::test::Message;

namespace {

WireReader::Bytes bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::uint64_t varint_of(const std::string& text) {
  WireReader::Bytes bytes = bytes_of(text);
  return take_varint(bytes);
}

}  // namespace

TEST_CASE("varints hold every 64-bit number and nothing beyond") {
  const std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t value :
       {std::uint64_t{0}, std::uint64_t{127}, std::uint64_t{128}, std::uint64_t{1} << 35, largest}) {
    Message message;
    message.raw_varint(value);
    CHECK(varint_of(message.data()) == value);
  }
  CHECK(varint_of(std::string("\x81\x80\x00", 3)) == 1);  // longer than it need be
  const std::string nine(9, '\xFF');
  CHECK(varint_of(nine + "\x01") == largest);
  CHECK_THROWS_AS(varint_of(nine + "\x02"), ParseError);
  CHECK_THROWS_AS(varint_of(nine + "\xFF\x01"), ParseError);
  CHECK_THROWS_AS(varint_of(nine), ParseError);
  CHECK_THROWS_AS(varint_of(""), ParseError);
}

TEST_CASE("fields are read in turn, and skipped where nobody reads them") {
  Message message;
  message.varint(1, 300).bytes(2, "skipped").fixed64(3, 1.0).bytes(4, "text").fixed32(5, 0.5f);
  WireReader reader(bytes_of(message.data()), "Test");
  REQUIRE(reader.next());
  CHECK(reader.field() == 1);
  CHECK(reader.varint() == 300);
  REQUIRE(reader.next());
  REQUIRE(reader.next());
  REQUIRE(reader.next());
  CHECK(reader.field() == 4);
  CHECK(reader.text() == "text");
  REQUIRE(reader.next());
  CHECK(reader.fixed32() == 0.5f);
  CHECK_FALSE(reader.next());
}

TEST_CASE("repeated numbers are the same packed or one by one") {
  const Message single = Message().varint(1, 300);
  const Message packed = Message().bytes(1, "\xAC\x02");
  for (const Message& message : {single, packed}) {
    WireReader reader(bytes_of(message.data()), "Test");
    REQUIRE(reader.next());
    WireReader::Bytes element = reader.repeated(WireType::varint);
    CHECK(take_varint(element) == 300);
    CHECK(element.empty());
    CHECK_FALSE(reader.next());
  }
}

TEST_CASE("a field of another type than it must be is refused") {
  const Message message = Message().bytes(1, "four");
  WireReader reader(bytes_of(message.data()), "Test");
  REQUIRE(reader.next());
  CHECK_THROWS_AS(reader.varint(), ParseError);
}

TEST_CASE("a field that ends beyond its message is refused where it is read and where it is skipped") {
  for (const std::string& text : {std::string("\x0A\x05"
                                              "four"),
                                  std::string("\x09\x01\x02"), std::string("\x0D\x01"), std::string("\x08")}) {
    WireReader skipping(bytes_of(text), "Test");
    REQUIRE(skipping.next());
    CHECK_THROWS_AS(skipping.next(), ParseError);
  }
  const std::string text(
      "\x0A\x05"
      "four");
  WireReader reading(bytes_of(text), "Test");
  REQUIRE(reading.next());
  CHECK_THROWS_AS(reading.bytes(), ParseError);
}

TEST_CASE("groups are skipped whole and must end as they began") {
  const std::string good("\x0B\x13\x08\x01\x14\x0C", 6);  // 1 { 2 { 1: 1 } }
  WireReader reader(bytes_of(good), "Test");
  REQUIRE(reader.next());
  CHECK_FALSE(reader.next());
  for (const std::string& text :
       {std::string("\x0B\x14"), std::string("\x0B\x13\x0C"), std::string("\x0B"), std::string(1000, '\x0B')}) {
    WireReader bad(bytes_of(text), "Test");
    REQUIRE(bad.next());
    CHECK_THROWS_AS(bad.next(), ParseError);
  }
}

TEST_CASE("names become printable, and text stays as it is") {
  CHECK(printable("plain / ü 数 \U0001F600") == "plain / ü 数 \U0001F600");
  CHECK(printable(std::string("\0\x1b[31m\x7f", 7)) == "\\x00\\x1b[31m\\x7f");
  CHECK(printable("\xff\xc3") == "\\xff\\xc3");
  CHECK(printable("\xc0\xaf") == "\\xc0\\xaf");                    // overlong
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // surrogate
  CHECK(printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // above U+10FFFF
  CHECK(printable("\xc2\x9b") == "\\xc2\\x9b");                    // control character
  CHECK(in_quotes(std::string(100, 'x')).size() < 90);
  CHECK(in_quotes("üüü", 3) == "'ü…'");
}
