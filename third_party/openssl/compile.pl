# SPDX-License-Identifier: Apache-2.0
# Compiles most C files of the makefile in this directory, with few starts of clang. make then finds
# their objects up to date. usage: perl compile.pl MAKE TARGET...
#
# Starting clang and reading OpenSSL's headers takes three quarters of the time of a compilation. Here,
# one clang compiles many files, one after the other, and reads a precompiled form of the headers. The
# objects have the same bytes as those of separate compilations: see same_bytes_test.sh.
use strict;
use warnings;

my $JOBS = 2;

# The number of files that one clang process compiles. With 20, starting clang takes a small part of
# the time.
my $FILES = 20;

# Headers are precompiled for at least this many files with the same options.
my $WORTHWHILE = 20;

# The headers that most files include.
my $HEADERS = <<'END';
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <openssl/asn1t.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/objects.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include "crypto/evp.h"
#include "internal/cryptlib.h"
END

my ($make, @targets) = @ARGV;
my $plan = `'$make' -n @targets`;
$? == 0 or die "make -n @targets exits with status $?\n";

# C files and headers that the makefile generates. Compilations may need them.
my @generated = $plan =~ /> (\S+\.[ch])$/mg;
run($make, "-j$JOBS", @generated) if @generated;

my (%groups, %object);
while ($plan =~ /^(\S+ .*) -c -o (\S+\.o) (\S+\.c)$/mg) {
    my ($command, $source) = ($1, $3);
    next if $object{$source};    # The makefile compiles this file twice: here once, then by make.
    $object{$source} = $2;
    push @{ $groups{$command}{ precompilable($source) ? 'headers' : 'alone' } }, $source;
}

my (@starts, $group);
for my $command (sort keys %groups) {
    my %sources = %{ $groups{$command} };
    my $name = 'compile' . ++$group;
    my $options = options($command, $name);
    for my $kind (sort keys %sources) {
        my @sources = @{ $sources{$kind} };
        my @with;
        if ($kind eq 'headers' && @sources >= $WORTHWHILE) {
            @with = ('-include-pch', precompile($options, $name));
        }
        while (my @some = splice @sources, 0, $FILES) {
            push @starts, ["\@$options", '-emit-obj', @with, @some];
        }
    }
}
start_all();
for my $source (keys %object) {
    # Without -o, clang writes the object next to the source.
    (my $written = $source) =~ s/c$/o/;
    rename $written, $object{$source} or die "cannot rename $written to $object{$source}: $!\n";
}

# Returns whether the file can use precompiled headers: it defines no macro before an include.
sub precompilable {
    my ($source) = @_;
    open my $file, '<', $source or die "cannot read $source: $!\n";
    my $text = do { local $/; <$file> };
    my ($before) = $text =~ /\A(.*)^[ \t]*#[ \t]*include/ms;
    return 1 if !defined $before;
    # bio_local.h has to come before openssl/bio.h.
    return $before !~ /^[ \t]*#[ \t]*(define|undef)/m && $text !~ /include "bio_local.h"/;
}

# Writes clang's options for a command to a file, without input and output names. Returns its name.
sub options {
    my ($command, $name) = @_;
    my $all = `$command -c -o '$name.o' -x c /dev/null -### 2>&1`;
    my ($options) = $all =~ /^ "[^"]*" ("-cc1" .*)$/m or die "no compilation in: $all\n";
    # With -disable-free, the process would keep the memory of all files that it has compiled.
    $options =~ s/ "-emit-obj"| "-disable-free"| "-main-file-name" "[^"]*"| "-o" "[^"]*"| "\/dev\/null"//g;
    $options =~ s/^"-cc1"//;
    write_file("$name.options", $options);
    return "$name.options";
}

# Precompiles the headers with these options. Returns the name of the file.
sub precompile {
    my ($options, $name) = @_;
    write_file("$name.h", $HEADERS);
    clang("\@$options", '-emit-pch', '-x', 'c-header', '-o', "$name.pch", "$name.h");
    return "$name.pch";
}

# Runs all compilations, up to $JOBS at once.
sub start_all {
    my $running = 0;
    for my $start (@starts, (undef) x $JOBS) {
        if (!defined $start || $running == $JOBS) {
            next if !$running;
            wait();
            $? == 0 or die "clang exits with status $?\n";
            $running--;
        }
        next if !defined $start;
        my $child = fork() // die "cannot fork: $!\n";
        if (!$child) {
            exec $ENV{CC}, '-cc1', @$start or die "cannot start $ENV{CC}: $!\n";
        }
        $running++;
    }
}

sub clang { run($ENV{CC}, '-cc1', @_) }

sub run {
    system(@_) == 0 or die "$_[0] exits with status $?\n";
}

sub write_file {
    my ($name, $text) = @_;
    open my $file, '>', $name or die "cannot write $name: $!\n";
    print $file $text;
    close $file or die "cannot write $name: $!\n";
}
