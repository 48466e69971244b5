extern "C" double identity_of_fast_math(double x) { return x; }
