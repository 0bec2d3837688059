#pragma once
// Converts a floating-point number to text that people and programs can read.
#include <string>

namespace es {

// The shortest decimal text that reads back as exactly this double: "0.1", "1000000", "950400.25".
// It has an exponent only below 1e-4 and from 1e15 on: "1e-08", "1e+300". The texts "nan", "inf"
// and "-inf" stand for values that are not finite.
std::string number_text(double value);

}  // namespace es
