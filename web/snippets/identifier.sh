echo "$(LC_ALL=C tr -dc a-z </dev/urandom | head -c 1)$(LC_ALL=C tr -dc a-z0-9 </dev/urandom | head -c 23)"
