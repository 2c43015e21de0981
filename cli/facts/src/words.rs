//! The words that documents are made of. Their order matters: the same seed must give the same document.

/// People.
pub const NAMES: &[&str] = &[
    "Mary", "Bob", "Alice", "John", "Sarah", "Tom", "Emma", "David", "Laura", "Peter", "Anna", "James",
    "Linda", "Robert", "Susan", "Michael", "Karen", "William", "Nancy", "Richard", "Lisa", "Joseph", "Betty",
    "Thomas", "Helen", "Charles", "Sandra", "Daniel", "Donna", "Matthew", "Carol", "Anthony", "Ruth", "Mark",
    "Sharon", "Donald", "Michelle", "Steven", "Kevin", "Brian", "George", "Edward", "Ronald", "Timothy",
    "Jason", "Jeffrey", "Ryan", "Jacob", "Gary", "Nicholas", "Eric", "Jonathan", "Stephen", "Larry", "Justin",
    "Scott", "Brandon", "Benjamin", "Samuel", "Gregory", "Frank", "Alexander", "Raymond", "Patrick", "Jack",
    "Dennis", "Jerry", "Tyler", "Aaron", "Jose", "Adam", "Henry", "Nathan", "Douglas", "Zachary", "Kyle",
    "Walter", "Ethan", "Jeremy", "Harold", "Keith", "Christian", "Roger", "Noah", "Gerald", "Carl", "Terry",
    "Sean", "Austin", "Arthur", "Lawrence", "Jesse", "Dylan", "Bryan", "Joe", "Jordan", "Billy", "Bruce",
    "Albert", "Willie", "Gabriel", "Logan", "Alan", "Juan", "Wayne", "Roy", "Ralph", "Randy", "Eugene",
    "Vincent", "Russell", "Elijah", "Louis", "Bobby", "Philip", "Johnny", "Amy", "Angela", "Melissa",
    "Brenda", "Rebecca", "Stephanie", "Kathleen", "Amanda", "Cynthia", "Diane", "Julie", "Joyce", "Victoria",
    "Kelly", "Christina", "Joan", "Evelyn", "Lauren", "Judith", "Olivia", "Martha", "Cheryl", "Megan",
    "Andrea", "Hannah", "Jacqueline", "Ann", "Jean", "Kathryn", "Gloria", "Teresa", "Doris", "Sara", "Janice",
    "Julia", "Marie", "Madison", "Grace", "Judy", "Theresa", "Beverly", "Denise", "Marilyn", "Amber",
    "Danielle", "Rose", "Brittany", "Diana", "Abigail", "Natalie", "Jane", "Lori", "Alexis", "Tiffany",
    "Kayla", "Maria", "Ingrid", "Omar", "Priya", "Wei", "Yuki", "Lars", "Fatima", "Carlos", "Elena", "Ivan",
    "Nadia", "Hugo", "Chloe", "Felix", "Greta", "Oscar", "Sofia", "Ahmed", "Leila", "Marco", "Bianca",
    "Pavel", "Irina", "Kenji", "Mei", "Sven", "Astrid", "Dmitri", "Olga", "Rahul", "Anika",
];

/// Where people live.
pub const CITIES: &[&str] = &[
    "Paris", "London", "Berlin", "Madrid", "Rome", "Vienna", "Oslo", "Helsinki", "Dublin", "Lisbon", "Athens",
    "Warsaw", "Prague", "Budapest", "Moscow", "Cairo", "Nairobi", "Lagos", "Delhi", "Mumbai", "Tokyo",
    "Kyoto", "Seoul", "Beijing", "Shanghai", "Sydney", "Melbourne", "Toronto", "Montreal", "Boston",
    "Chicago", "Denver", "Dallas", "Seattle", "Portland", "Miami", "Atlanta", "Houston", "Phoenix", "Havana",
    "Lima", "Bogota", "Santiago", "Geneva", "Zurich", "Munich", "Hamburg", "Bremen", "Leipzig", "Dresden",
    "Lyon", "Nice", "Turin", "Milan", "Venice", "Naples", "Porto", "Seville", "Valencia", "Krakow", "Riga",
    "Vilnius", "Tallinn", "Istanbul", "Ankara", "Tehran", "Baghdad", "Damascus", "Amman", "Doha", "Dubai",
    "Manila", "Jakarta", "Bangkok", "Hanoi",
];

/// Things that have a code.
pub const ITEMS: &[&str] = &[
    "safe", "vault", "garage", "cellar", "attic", "library", "museum", "laptop", "printer", "server",
    "archive", "locker", "cabinet", "warehouse", "laboratory", "gate", "kitchen", "office", "studio",
    "harbor", "station", "castle", "tower", "bridge", "tunnel", "garden", "greenhouse", "hangar", "workshop",
    "bakery", "theater", "chapel", "school", "hospital", "hotel", "market", "bank", "ship", "train", "truck",
    "elevator", "suitcase", "desk", "drawer", "phone", "tablet", "router", "camera", "telescope", "engine",
    "boiler", "factory", "mine", "farm", "stable", "dock", "lighthouse",
];

/// Secret words.
pub const WORDS: &[&str] = &[
    "apple", "river", "mountain", "silver", "candle", "forest", "dragon", "pepper", "violin", "orange",
    "marble", "thunder", "pencil", "rabbit", "window", "lemon", "copper", "island", "button", "cactus",
    "blanket", "feather", "hammer", "jacket", "kettle", "ladder", "magnet", "needle", "onion", "parrot",
    "quartz", "ribbon", "saddle", "turtle", "umbrella", "velvet", "walnut", "zebra", "anchor", "basket",
    "castle", "desert", "ember", "falcon", "ginger", "harvest", "igloo", "jungle", "lantern", "meadow",
    "nectar", "oyster", "pumpkin", "raven", "salmon", "tulip", "valley", "willow", "yellow", "acorn",
    "beacon", "cobalt", "dolphin", "eagle", "flame", "glacier", "hazel", "ivory", "jasmine", "koala",
    "lavender", "mango", "nutmeg", "olive", "peach", "quill", "rocket", "spider", "tiger", "unicorn",
    "vanilla", "whale", "amber", "birch", "coral", "daisy", "emerald", "fox", "granite", "honey", "iris",
    "jade", "kiwi", "lotus", "maple", "north", "opal", "pearl",
];

/// Things that are hidden.
pub const OBJECTS: &[&str] = &[
    "key", "map", "ring", "letter", "book", "coin", "lamp", "watch", "sword", "crown", "diary", "ticket",
    "photo", "passport", "wallet", "flute", "mirror", "knife", "compass", "bottle", "statue", "painting",
    "necklace", "umbrella", "notebook", "hat", "glove", "scarf", "clock", "bell",
];

/// Where things are hidden.
pub const PLACES: &[&str] = &[
    "kitchen", "garden", "cellar", "attic", "library", "garage", "barn", "tower", "chapel", "bathroom",
    "bedroom", "office", "stable", "workshop", "greenhouse", "hallway", "basement", "balcony", "pantry",
    "closet", "theater", "museum", "bakery", "school", "hospital", "station", "harbor", "castle", "forest",
    "cave",
];

/// Favorite colors.
pub const COLORS: &[&str] = &[
    "red", "blue", "green", "yellow", "purple", "orange", "black", "white", "brown", "pink", "gray", "silver",
    "gold", "turquoise", "violet", "crimson",
];

/// Favorite animals.
pub const ANIMALS: &[&str] = &[
    "dog", "cat", "horse", "parrot", "rabbit", "hamster", "turtle", "goat", "snake", "lizard", "donkey",
    "pony", "canary", "ferret", "duck", "goose",
];

/// Favorite foods.
pub const FOODS: &[&str] = &[
    "pizza", "pasta", "soup", "rice", "bread", "cheese", "salad", "curry", "sushi", "noodles", "pancakes",
    "chocolate", "dumplings", "tacos", "lasagna", "stew", "waffles", "risotto", "falafel", "omelette",
];

/// Adjectives of filler sentences.
pub const ADJECTIVES: &[&str] = &[
    "old", "small", "quiet", "large", "green", "broken", "narrow", "bright", "heavy", "wooden", "empty",
    "strange", "famous", "distant", "little",
];

/// Numbers of filler sentences, as words.
pub const COUNTS: &[&str] = &[
    "two", "three", "five", "seven", "nine", "ten", "eleven", "twelve", "fifteen", "twenty", "thirty",
    "fifty", "sixty", "ninety", "a hundred", "a thousand",
];

/// Nouns of filler sentences.
pub const NOUNS: &[&str] = &[
    "house", "road", "river", "boat", "garden", "bird", "teacher", "farmer", "doctor", "child", "village",
    "hill", "window", "table", "market", "bridge", "story", "song", "cloud", "field", "horse", "train",
    "letter", "machine", "student", "baker", "sailor", "painter", "neighbor", "tree",
];

/// Verbs of filler sentences.
pub const VERBS: &[&str] = &[
    "saw", "found", "watched", "followed", "painted", "visited", "remembered", "described", "crossed",
    "passed", "noticed", "admired", "left", "repaired",
];

/// Beginnings of filler sentences.
pub const TIMES: &[&str] = &[
    "In the morning", "At night", "Last week", "During the summer", "After lunch", "On Sunday", "Before dawn",
    "Later that day", "In the winter", "Many years ago", "Yesterday", "One evening",
];
