#include "driftbound/trace/function_libraries.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "driftbound/num/errors.hpp"
#include "model/text.hpp"

namespace driftbound {
namespace {

struct Entry {
  std::string_view function;
  double maximum = 0.0;  ///< in the unit of the library's table
  double absolute_units = 0.0;
};

/// How a table's maximum becomes units: T-20.
enum class Maximum { ulps_from_correct_rounding, true_ulps, units };

double units_of(double maximum, Maximum kind) {
  switch (kind) {
    case Maximum::ulps_from_correct_rounding:
      return 2.0 * maximum + 1.0;
    case Maximum::true_ulps:
      return 2.0 * maximum;
    case Maximum::units:
      return maximum;
  }
  return maximum;
}

FunctionLibrary library(std::string_view name, std::string_view about, std::string_view source, Evidence evidence,
                        Maximum kind, std::initializer_list<Entry> entries) {
  FunctionLibrary result{name, about, source, {}};
  for (const Entry& entry : entries) {
    const bool is_correct = kind == Maximum::ulps_from_correct_rounding && entry.maximum == 0.0;
    result.functions.push_back({std::string(entry.function), units_of(entry.maximum, kind), evidence,
                                std::string(source) + (is_correct ? "; correctly rounded" : ""), entry.absolute_units});
  }
  return result;
}

/// 1 / (1 + exp(-x)) is 0 where exp(-x) overflows, from sigmoid(x) = 2^-128 on; this, in u, is above 2^-127.
constexpr double lost_by_overflow = 1e-31;

/// Sigmoid and softplus are no functions of these libraries: what their usual formulas make of exp and log1p.
FunctionAccuracy by_formula(std::string_view function, double units, double absolute_units = 0.0) {
  return {std::string(function), units, Evidence::assumed, "the usual formula over the library's exp and log1p",
          absolute_units};
}

FunctionLibrary cuda() {
  FunctionLibrary result = library(
      "cuda", "CUDA device functions, compiled without --use_fast_math; PyTorch and ONNX Runtime on an NVIDIA GPU",
      "CUDA C++ Programming Guide, maximum errors of extensive, not exhaustive tests", Evidence::documented,
      Maximum::ulps_from_correct_rounding,
      {{"exp", 2},
       {"expm1", 1},
       {"log", 1},
       {"log1p", 1},
       {"tanh", 2},
       {"sin", 2},
       {"cos", 2},
       {"erf", 2},
       {"sqrt", 0},
       {"tan", 4},
       {"atan", 2},
       {"sinh", 3},
       {"cosh", 2},
       {"pow", 8}});
  result.functions.push_back(by_formula("sigmoid", 9.0, lost_by_overflow));
  result.functions.push_back(by_formula("softplus", 9.0));
  return result;
}

FunctionLibrary xla() {
  FunctionLibrary result =
      library("xla-gpu",
              "JAX on NVIDIA H100 and B200; subnormal numbers may be flushed there: state flushes_subnormals "
              "where they are",
              "JAX documentation, numerical accuracy, all float32 inputs (2026-09-18)", Evidence::documented,
              Maximum::true_ulps,
              {{"exp", 2.0},
               {"expm1", 1.5},
               {"log", 1.0},
               {"log1p", 1.0},
               {"tanh", 5.5},
               {"sigmoid", 4.0, lost_by_overflow},
               {"sin", 1.5},
               {"cos", 2.0},
               {"erf", 6.5},
               {"sqrt", 1.0},
               {"tan", 3.5},
               {"sinh", 3.0},
               {"cosh", 2.5}});
  result.functions.push_back(by_formula("softplus", 9.0));
  return result;
}

constexpr std::string_view on_an_h200 =
    "measured against float64 on every float32 number, an H200 (2026-11-26), rounded up; scripts/measure_functions.py";

/// pow has two arguments: no table of every number measures it.
FunctionAccuracy documented_pow(double units, std::string_view source) {
  return {"pow", units, Evidence::documented, std::string(source), 0.0};
}

FunctionLibrary pytorch_cuda() {
  FunctionLibrary result =
      library("pytorch-cuda", "PyTorch 2.11 for CUDA 13.0 on an NVIDIA GPU; the erf inside GELU is that of torch.erf",
              on_an_h200, Evidence::measured, Maximum::units,
              {{"exp", 2.56},
               {"expm1", 1.93},
               {"log", 1.35},
               {"log1p", 1.42},
               {"tanh", 3.34},
               {"sigmoid", 3.54, lost_by_overflow},
               {"softplus", 3.26},
               {"sin", 2.87},
               {"cos", 2.95},
               {"erf", 1.43},
               {"sqrt", 1.0},
               {"tan", 4.08},
               {"atan", 1.94},
               {"sinh", 3.46},
               {"cosh", 3.35}});
  result.functions.push_back(documented_pow(17.0, "CUDA C++ Programming Guide, maximum error of powf: 8 ulp"));
  return result;
}

FunctionLibrary jax_cuda() {
  return library("jax-cuda", "JAX 0.11.2 for CUDA 13 on an NVIDIA GPU; subnormal numbers are kept", on_an_h200,
                 Evidence::measured, Maximum::units,
                 {{"exp", 2.56},
                  {"expm1", 1.93},
                  {"log", 1.35},
                  {"log1p", 1.42},
                  {"tanh", 5.44},
                  {"sigmoid", 3.92, lost_by_overflow},
                  {"softplus", 3.26},
                  {"sin", 2.87},
                  {"cos", 2.95},
                  {"erf", 6.25},
                  {"sqrt", 1.68},
                  {"tan", 4.08},
                  {"atan", 1.94},
                  {"sinh", 3.46},
                  {"cosh", 3.35}});
}

FunctionLibrary pytorch() {
  return library(
      "pytorch-cpu",
      "PyTorch 1.13 on an x86-64 CPU (Debian 12), and the GNU C library's functions, which it calls for elements that "
      "do not lie next to each other. log1p overflows from 1e38 on. The absolute term of erf is that of the erf "
      "inside its GELU; torch.erf has none",
      "measured against float64 on every 17th (exp to cos, erf, sqrt) or 173rd float32 number, rounded up",
      Evidence::measured, Maximum::units,
      {{"exp", 1.45},
       {"expm1", 1.6},
       {"log", 1.4},
       {"log1p", 2.1},
       {"tanh", 3.0},
       {"sigmoid", 2.6, lost_by_overflow},
       {"softplus", 3.2},
       {"sin", 1.15},
       {"cos", 1.15},
       {"erf", 1.45, 10.0},
       {"sqrt", 1.0},
       {"tan", 1.6},
       {"atan", 1.5},
       {"sinh", 3.1},
       {"cosh", 3.1},
       {"pow", 2.0}});
}

FunctionLibrary glibc() {
  FunctionLibrary result = library("glibc", "GNU C library 2.36 on x86-64, float functions",
                                   "measured against its double functions on every 17th float32 number, rounded up",
                                   Evidence::measured, Maximum::units,
                                   {{"exp", 1.01},
                                    {"expm1", 1.45},
                                    {"log", 1.4},
                                    {"log1p", 1.45},
                                    {"tanh", 3.0},
                                    {"sin", 1.15},
                                    {"cos", 1.15},
                                    {"erf", 1.45},
                                    {"sqrt", 1.0},
                                    {"tan", 1.6},
                                    {"atan", 1.5},
                                    {"sinh", 3.1},
                                    {"cosh", 3.1}});
  result.functions.push_back(by_formula("sigmoid", 5.0, lost_by_overflow));
  result.functions.push_back(by_formula("softplus", 5.0));
  result.functions.push_back(documented_pow(3.0, "GNU C library manual, known maximum error of powf: 1 ulp"));
  return result;
}

}  // namespace

const std::vector<FunctionLibrary>& function_libraries() {
  static const std::vector<FunctionLibrary> libraries = {cuda(), pytorch_cuda(), xla(), jax_cuda(), pytorch(), glibc()};
  return libraries;
}

const FunctionLibrary& function_library(std::string_view name) {
  std::string names;
  for (const FunctionLibrary& library : function_libraries()) {
    if (library.name == name) return library;
    names += (names.empty() ? "" : ", ") + std::string(library.name);
  }
  throw InvalidArgument("no library of functions " + in_quotes(name) + "; there are: " + names);
}

}  // namespace driftbound
