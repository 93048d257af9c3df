#!/usr/bin/env perl
# Mojolicious reads the stream of the second argument as a WebSocket, and prints each event as a line
# of JSON, as the application has seen it. The first argument is its name.
use Mojo::Base -strict;
use Mojo::IOLoop;
use Mojo::JSON qw(decode_json encode_json);
use Mojo::UserAgent;
use Mojo::Util qw(encode);

# How long it waits before it connects again, in seconds.
use constant PAUSE_S => 0.2;

my (undef, $url) = @ARGV;
$| = 1;

# Where it has heard up to: a client of the protocol knows no place and does not reconnect, so the
# program does both by hand, as docs/protocol.md describes.
my $place;

# Between events there is silence; a message may have up to 256 KiB unless told otherwise.
my $agent = Mojo::UserAgent->new(inactivity_timeout => 0);

sub hear {
    my $text = shift;
    my $message = decode_json(encode('UTF-8', $text));
    my $next = $message->{id} // $message->{ok}{next};
    my $type = $message->{gap} ? 'gap' : $message->{ok} && 'next';
    $place = $next // $place;
    say encode_json({id => $next, type => $type, data => $text});
}

sub open_stream {
    my $address = $url =~ s/^http/ws/r;
    $address .= "?last_event_id=$place" if $place;
    my $again = sub { Mojo::IOLoop->timer(PAUSE_S, \&open_stream) };
    $agent->websocket($address => sub {
        my (undef, $socket) = @_;
        return $again->() unless $socket->is_websocket;
        $socket->on(text => sub { hear(Mojo::Util::decode('UTF-8', $_[1])) });
        $socket->on(finish => $again);
        # Asks where the stream begins, so that a cut before the first event loses nothing either.
        $socket->send('{"ping":1}');
    });
}

open_stream();
Mojo::IOLoop->start;
