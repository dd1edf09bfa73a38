/* Included before every file of jq: what the GNU C library declares and musl does not. */
double gamma(double x);
double drem(double x, double y);
