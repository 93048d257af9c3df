module example.org/encke

go 1.23
