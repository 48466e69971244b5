// Stands in for functions.cpp in builds without MPFR (DRIFTBOUND_CAPTURE_ONLY).
#include <string>

#include "driftbound/num/errors.hpp"
#include "evaluate/functions.hpp"

namespace driftbound::accumulator {
namespace {

[[noreturn]] double not_available(const std::string& function) {
  throw NotAvailable(function +
                     " in float64 is not available on the CPU in this build, which records only; use --backend cuda, "
                     "--arithmetic fp32, or a full build");
}

}  // namespace

double exp(double) {
  not_available("exp");
}
double expm1(double) {
  not_available("expm1");
}
double tanh(double) {
  not_available("tanh");
}
double sigmoid(double) {
  not_available("sigmoid");
}
double softplus(double) {
  not_available("softplus");
}
double sin(double) {
  not_available("sin");
}
double cos(double) {
  not_available("cos");
}
double erf(double) {
  not_available("erf");
}
double log(double) {
  not_available("log");
}
double log1p(double) {
  not_available("log1p");
}
double tan(double) {
  not_available("tan");
}
double atan(double) {
  not_available("atan");
}
double sinh(double) {
  not_available("sinh");
}
double cosh(double) {
  not_available("cosh");
}
double pow(double, double) {
  not_available("pow");
}

}  // namespace driftbound::accumulator
