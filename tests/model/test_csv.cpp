#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "model/array_files.hpp"
#include "support/temporary_folder.hpp"

using namespace driftbound;
using namespace driftbound::test;

namespace {

Tensor<double> csv(const std::string& text) {
  return parse_csv(text, "a.csv").to_double();
}

std::string error_of(const std::string& text) {
  try {
    csv(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("each line of a CSV file is one sample") {
  const Tensor<double> table = csv("1,2,3\n4,5,6\n");
  CHECK(table.shape == Shape{2, 3});
  CHECK(table.values == std::vector<double>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("separators, headers, comments and line ends as they are found in practice") {
  const std::vector<double> expected = {1.5, -2};
  for (const std::string text :
       {"1.5,-2", "1.5, -2\r\n", "1.5;-2\n", "1.5\t-2\n", "  1.5   -2  \n", "x,y\n1.5,-2\n", "# x y\n1.5 -2\n",
        "\xEF\xBB\xBF\"x\",\"y\"\n\n\"1.5\",\"-2\"\n\n", "+1.5e0,-0x1p1\n"}) {
    CAPTURE(text);
    const Tensor<double> table = csv(text);
    CHECK(table.shape == Shape{1, 2});
    CHECK(table.values == expected);
  }
}

TEST_CASE("numbers are the nearest doubles, subnormal, infinite and NaN ones too") {
  const Tensor<double> table = csv("0.1,5e-324,inf,-inf,nan,-0\n");
  CHECK(table.values[0] == 0.1);
  CHECK(table.values[1] == std::numeric_limits<double>::denorm_min());
  CHECK(table.values[2] == std::numeric_limits<double>::infinity());
  CHECK(table.values[3] == -std::numeric_limits<double>::infinity());
  CHECK(std::isnan(table.values[4]));
  CHECK(std::signbit(table.values[5]));
}

TEST_CASE("what is not a table of numbers says where it goes wrong") {
  CHECK(error_of("1,2\n3\n").find("line 2") != std::string::npos);
  CHECK(error_of("1,2\n3,x\n").find("line 2: column 2") != std::string::npos);
  CHECK(error_of("1,2\n3,1e999\n").find("line 2: column 2") != std::string::npos);
  CHECK(error_of("a,b\nc,d\n").find("line 2") != std::string::npos);
  CHECK(error_of("1,,2\n3,,4\n").find("line 1") != std::string::npos);
  CHECK(error_of("1,2,\n").find("line 1") != std::string::npos);
  CHECK(error_of("").find("no numbers") != std::string::npos);
  CHECK(error_of("x,y\n").find("no numbers") != std::string::npos);
  CHECK(error_of("1,--2\n3,4\n5,--6\n").find("line 1") != std::string::npos);
}

TEST_CASE("binary rubbish is no table") {
  std::string rubbish;
  for (int i = 0; i < 4096; ++i) rubbish += static_cast<char>(i * 37 + i / 256);
  CHECK_THROWS_AS(csv(rubbish), Error);
}
