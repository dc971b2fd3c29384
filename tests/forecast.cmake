strata_test(forecast_test unit/engine/step_forecast_test.cpp)
