//! Programs that find songs: resolvers over a pipe.
