# SPDX-License-Identifier: Apache-2.0
# Compiles most C files of the makefile in the current directory with few clang processes. make then
# finds their objects up to date. usage:
#   perl compile.pl [--alone=REGEX] [--leave=REGEX] --header=NAME... MAKE TARGET...
#
# --header: a header that most files include. Such headers are precompiled.
# --alone: a pattern for the text of files that cannot use the precompiled headers.
# --leave: a pattern for the names of files to leave to make, because they include generated files.
#
# Starting clang and reading headers takes up to three quarters of a compilation's time. This script
# lets one clang process compile many files in turn. same_bytes.sh checks that the objects have the
# same bytes as those of separate compilations.
use strict;
use warnings;
use Getopt::Long;

my $JOBS = 2;

# The number of files that one clang process compiles. With 20 files, starting clang takes only a
# small part of the time.
my $FILES = 20;

# Precompile headers only if at least this many files have the same options and definitions.
my $WORTHWHILE = 6;

my ($alone, $leave, @headers) = ('(?!)', '(?!)');
GetOptions('alone=s' => \$alone, 'leave=s' => \$leave, 'header=s' => \@headers) && @ARGV > 1
    or die "usage: compile.pl [--alone=REGEX] [--leave=REGEX] --header=NAME... MAKE TARGET...\n";
my ($make, @targets) = @ARGV;
my $plan = `'$make' -n @targets`;
$? == 0 or die "make -n @targets exits with status $?\n";

# Let make generate C files and headers first, because compilations may need them.
my @generated = $plan =~ /> (\S+\.[ch])$/mg;
run($make, "-j$JOBS", @generated) if @generated;

# %groups maps a command to a map from the preprocessor lines before the first include to files.
# %object maps a source file to its object.
my (%groups, %object);
for my $command (grep { / -c / } split /\n/, $plan) {
    next if $command !~ s/ -c(?= )// || $command !~ s/ -o (\S+\.o)(?= |$)//;
    my $object = $1;
    next if $command !~ s/ (\S+\.c)$//;
    my $source = $1;
    next if $source =~ /$leave/;
    next if $object{$source};    # The makefile compiles this file twice: here once, then by make.
    $object{$source} = $object;
    push @{ $groups{$command}{ definitions($source) // 'alone' } }, $source;
}

my (@starts, $group);
for my $command (sort keys %groups) {
    my %sources = %{ $groups{$command} };
    my $options = options($command, 'compile' . ++$group);
    my @rest;
    for my $definitions (sort keys %sources) {
        my @sources = @{ $sources{$definitions} };
        if ($definitions eq 'alone' || @sources < $WORTHWHILE) {
            push @rest, @sources;
        } else {
            my $precompiled = precompile($options, $definitions, 'compile' . ++$group);
            plan_starts(\@sources, $options, '-include-pch', $precompiled);
        }
    }
    plan_starts(\@rest, $options);
}
start_all();
for my $source (keys %object) {
    # Without -o, clang writes an object next to its source.
    (my $written = $source) =~ s/c$/o/;
    next if $written eq $object{$source};
    rename $written, $object{$source} or die "cannot rename $written to $object{$source}: $!\n";
}

# Returns the preprocessor lines before a file's first include, or undef if the file cannot use
# precompiled headers.
sub definitions {
    my ($source) = @_;
    open my $file, '<', $source or die "cannot read $source: $!\n";
    my $text = do { local $/; <$file> };
    return if !@headers || $text =~ /$alone/;
    my ($before) = $text =~ /\A(.*?)^[ \t]*#[ \t]*include/ms or return '';
    $before =~ s{/\*.*?\*/}{}gs;
    my $definitions = join '', $before =~ /^([ \t]*#.*\n)/mg;
    # An unclosed #if, or a continued line, may be part of a condition that ends after the include.
    my $opened = () = $definitions =~ /^[ \t]*#[ \t]*if/mg;
    my $closed = () = $definitions =~ /^[ \t]*#[ \t]*endif/mg;
    return if $opened != $closed || $definitions =~ /\\$/m;
    return $definitions;
}

# Writes clang's internal options for a command, without input and output names, to a file. Returns
# the file's name.
sub options {
    my ($command, $name) = @_;
    my $all = `$command -c -o '$name.o' -x c /dev/null -### 2>&1`;
    my ($options) = $all =~ /^ "[^"]*" ("-cc1" .*)$/m or die "no compilation in: $all\n";
    # With -disable-free, clang would not free the memory of the files that it has compiled.
    $options =~ s/ "-emit-obj"| "-disable-free"| "-main-file-name" "[^"]*"| "-o" "[^"]*"| "\/dev\/null"//g;
    $options =~ s/^"-cc1"//;
    write_file("$name.options", $options);
    return "$name.options";
}

# Precompiles the headers with the given options and definitions. Returns the name of the PCH file.
sub precompile {
    my ($options, $definitions, $name) = @_;
    write_file("$name.h", $definitions . join '', map { "#include $_\n" } @headers);
    run($ENV{CC}, '-cc1', "\@$options", '-emit-pch', '-x', 'c-header', '-o', "$name.pch", "$name.h");
    return "$name.pch";
}

# Plans clang processes, with the same arguments, that compile $FILES files each.
sub plan_starts {
    my ($sources, $options, @arguments) = @_;
    while (my @some = splice @$sources, 0, $FILES) {
        push @starts, ["\@$options", '-emit-obj', @arguments, @some];
    }
}

# Runs all planned clang processes, up to $JOBS at once.
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

sub run {
    system(@_) == 0 or die "$_[0] exits with status $?\n";
}

sub write_file {
    my ($name, $text) = @_;
    open my $file, '>', $name or die "cannot write $name: $!\n";
    print $file $text;
    close $file or die "cannot write $name: $!\n";
}
